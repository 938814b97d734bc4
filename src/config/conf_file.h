/* conf_file.h - reading a small text file with suspicion (layer: config, private to this folder; main thread).
 *
 * Never waits: a FIFO or a device is refused, not read. */
#ifndef LEASEHOLD_CONFIG_CONF_FILE_H
#define LEASEHOLD_CONFIG_CONF_FILE_H

#include "base/fault.h"

#include <stddef.h>
#include <sys/stat.h>

/* The whole of a regular file of at most max bytes, NUL-terminated, into *text (the caller frees it). status (may be
 * NULL) is what was opened. The fault's text says what is wrong without the name of the file: "cannot open: No such file
 * or directory". */
enum lh_err conf_file_read(const char *path, size_t max, char **text, size_t *len, struct stat *status,
			   struct fault *f) LH_MUST_CHECK;

/* Refuses what a text file may not hold: NUL bytes (*line is where) and a byte order mark. */
enum lh_err conf_file_check(const char *text, size_t len, unsigned int *line, struct fault *f) LH_MUST_CHECK;

#endif
