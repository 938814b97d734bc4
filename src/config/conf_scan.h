/* conf_scan.h - the lexical pass over one configuration file (layer: config, private to this folder; main thread). */
#ifndef LEASEHOLD_CONFIG_CONF_SCAN_H
#define LEASEHOLD_CONFIG_CONF_SCAN_H

#include "config/conf_source.h"

/* Appends the file to source->text, as conf_source.h says. file is its index in source->files; text is NUL-terminated at
 * text[len]. */
void conf_scan(struct conf_source *source, uint32_t file, const char *text, size_t len);

#endif
