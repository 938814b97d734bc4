/* conf.h - loading and checking a configuration file (layer: config; main thread, at start and at reload).
 *
 * One table (conf_options) holds name, type, default, range, unit, reload or restart and help of every option; the
 * loader, `leasehold check`, and the lint that compares the sample file and leasehold.conf(5) with it, all read that
 * table. libconfig is used in this folder only. */
#ifndef LEASEHOLD_CONFIG_CONF_H
#define LEASEHOLD_CONFIG_CONF_H

#include "base/fault.h"
#include "base/buf.h"
#include "model/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All errors of a file at once: "file:line: option: what is wrong, and what it takes". conf_load initialises it (never
 * free a filled one twice, and free it before it is used for another load). It is empty after a success. */
struct conf_errors {
	char **lines;
	size_t count; /* stops growing at 100; then a last line says so */
};
void conf_errors_free(struct conf_errors *e);

/* Loads file. On success *out has one reference and errors is empty; else LH_ERR_INPUT and errors tells all. Refused:
 * unknown and duplicate keys, wrong types, out of range, contradictions (both keys named), files over 1 MiB, a missing
 * include. Secrets are read from password_file or the variable that password_env names. LH_ERR_MEMORY: out of memory;
 * then errors may be incomplete. */
enum lh_err conf_load(const char *file, struct settings **out, struct conf_errors *errors) LH_MUST_CHECK;

/* As conf_load from text, for tests. name stands for the file in errors. */
enum lh_err conf_load_text(const char *text, const char *name, struct settings **out, struct conf_errors *errors) LH_MUST_CHECK;

/* A user or group other than the process's own is refused unless the process is root. This tells the loader to let them
 * pass: for a command that runs no handler itself, and for a daemon that was root at its start and reloads. Main thread,
 * before a load. */
void conf_assume_root(bool assume);

/* The options that differ between two settings but need a restart to change: a comma-separated list into out ("" = none). */
void conf_restart_needed(const struct settings *running, const struct settings *loaded, struct buf *out);

/* For `leasehold version --options`, the lint and the tests: one row per option, in file order. */
enum conf_type { CONF_STRING, CONF_INT, CONF_BOOL, CONF_DURATION, CONF_SIZE, CONF_CHOICE, CONF_STRINGS };
#define CONF_NO_FIELD ((size_t)-1)
struct conf_option {
	const char *group;    /* "database", "pools" ... */
	const char *name;     /* "backoff.base" is `base` in the nested group `backoff` */
	enum conf_type type;
	const char *fallback; /* the default, without quotes, of a list its only entry; NULL = not set, or computed, or required */
	bool required;
	int64_t min, max;     /* inclusive; durations: milliseconds, sizes: bytes, strings: characters, lists of strings: entries */
	const char *unit;     /* "ms" (durations), "bytes", "rows", "absolute path" (a string that must be one) ...; NULL */
	const char *choices;  /* "off|required|verify", in the order of their enum; NULL */
	bool reloads;         /* SIGHUP is enough */
	size_t offset;        /* into the group's struct of settings.h; CONF_NO_FIELD: the value ends in another option's field */
	const char *help;     /* one sentence */
	const char *computed; /* what the default is where it is worked out at load; NULL */
	bool zero;            /* 0 is allowed too, and means none */
	bool secret;          /* never printed */
};
extern const struct conf_option conf_options[];
extern const size_t conf_option_count;

/* What an option takes, for people: "1 to 1024", "0s (none) or 1s to 30d", "off, required or verify". Returns out (64
 * bytes are enough). */
char *conf_option_range(const struct conf_option *option, char *out, size_t size);
const char *conf_type_name(enum conf_type type); /* "whole number", "duration" ... */

#endif
