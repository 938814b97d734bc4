/* conf_source.h - one text out of a configuration file and all that it includes (layer: config, private to this folder;
 * main thread).
 *
 * libconfig parses the text that is made here. What it would do by itself is not good enough for a daemon: version 1.5
 * takes a number that does not fit 32 bits modulo 2^32, ends the process when an included file cannot be read, finds
 * included files by one directory only, ignores the rest of a file after a comment that is never closed, and does not
 * name a key that is there twice. So the text is scanned once: included files are put in place, a large number gets its
 * L, the rest is refused with its place. Every line of the text remembers the file and line that it came from. */
#ifndef LEASEHOLD_CONFIG_CONF_SOURCE_H
#define LEASEHOLD_CONFIG_CONF_SOURCE_H

#include "base/buf.h"
#include "config/conf_report.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONF_SOURCE_FILE_MAX ((size_t)1024 * 1024) /* one file */
#define CONF_SOURCE_MAX (4 * CONF_SOURCE_FILE_MAX) /* all of them */
#define CONF_SOURCE_KEYS 10000
#define CONF_SOURCE_DEPTH 32    /* brackets within brackets */
#define CONF_SOURCE_INCLUDES 10 /* files within files */
#define CONF_SOURCE_FILES 1000

struct conf_source_line {
	uint32_t file, line;
};

struct conf_source_key {
	uint32_t scope;
	uint32_t line;         /* of the text */
	uint32_t start, count; /* of its name in the text */
};

struct conf_source_scope {
	uint32_t id;
	uint32_t line; /* of the text */
	char bracket;
};

struct conf_source_file {
	dev_t device;
	ino_t inode;
};

struct conf_source {
	struct conf_report *report;
	struct buf text;
	struct conf_source_line *lines; /* lines[0] is the text's line 1 */
	size_t line_count, line_space;
	char **files;
	size_t file_count;
	struct conf_source_file reading[CONF_SOURCE_INCLUDES + 1]; /* the file being read, and those that include it */
	size_t reading_count;
	struct conf_source_key *keys;
	size_t key_count;
	struct conf_source_scope scopes[CONF_SOURCE_DEPTH]; /* those that are open; [0] is the file itself */
	size_t scope_count;                                 /* counts on where the array ends */
	uint32_t scope_ids;
	char last; /* the last token: the character that it is, or one of these */
#define CONF_SOURCE_STRING '"'
#define CONF_SOURCE_WORD 'w' /* a name or a number */
	bool too_deep, too_many; /* reported already */
};

void conf_source_init(struct conf_source *source, struct conf_report *report);
void conf_source_free(struct conf_source *source);

/* Make the text. Errors go to the report. */
void conf_source_read_file(struct conf_source *source, const char *path);
void conf_source_read_text(struct conf_source *source, const char *text, const char *name);

/* Where a line of the text came from. The name is borrowed from source. */
const char *conf_source_place(const struct conf_source *source, uint32_t text_line, unsigned int *line);

/* For the scanner (conf_scan.c): what it finds. */
void conf_source_begin_line(struct conf_source *source, uint32_t file, uint32_t line);
void conf_source_add_key(struct conf_source *source, uint32_t start, uint32_t count);
void conf_source_open(struct conf_source *source, char bracket);
void conf_source_close(struct conf_source *source, char bracket);
char conf_source_bracket(const struct conf_source *source); /* the innermost one that is open, NUL when there is none */
void conf_source_include(struct conf_source *source, uint32_t from_file, uint32_t from_line, const char *path);
uint32_t conf_source_current(const struct conf_source *source); /* the line of the text being made */

#endif
