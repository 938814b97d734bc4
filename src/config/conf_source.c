/* conf_source.c - one text out of a configuration file and all that it includes. */
#include "config/conf_source.h"

#include "config/conf_file.h"
#include "config/conf_scan.h"

#include <stdlib.h>
#include <string.h>

void conf_source_init(struct conf_source *source, struct conf_report *report)
{
	*source = (struct conf_source){.report = report, .scope_count = 1};
	buf_init(&source->text, CONF_SOURCE_MAX);
}

void conf_source_free(struct conf_source *source)
{
	buf_free(&source->text);
	free(source->lines);
	for (size_t i = 0; i < source->file_count; i++)
		free(source->files[i]);
	free(source->files);
	free(source->keys);
}

const char *conf_source_place(const struct conf_source *source, uint32_t text_line, unsigned int *line)
{
	const struct conf_source_line *from;

	*line = 0;
	if (!text_line || !source->line_count)
		return source->file_count ? source->files[0] : "";
	/* libconfig counts the end of the text as one line more. */
	from = &source->lines[text_line > source->line_count ? source->line_count - 1 : text_line - 1];
	*line = from->line;
	return source->files[from->file];
}

uint32_t conf_source_current(const struct conf_source *source)
{
	return (uint32_t)source->line_count;
}

void conf_source_begin_line(struct conf_source *source, uint32_t file, uint32_t line)
{
	if (source->line_count == source->line_space) {
		size_t space = source->line_space ? 2 * source->line_space : 256;
		struct conf_source_line *lines = realloc(source->lines, space * sizeof(*lines));

		if (!lines) {
			source->report->no_memory = true;
			return;
		}
		source->lines = lines;
		source->line_space = space;
	}
	source->lines[source->line_count++] = (struct conf_source_line){.file = file, .line = line};
}

/* The innermost one that is remembered. */
static const struct conf_source_scope *conf_source_scope(const struct conf_source *source)
{
	size_t count = source->scope_count < CONF_SOURCE_DEPTH ? source->scope_count : CONF_SOURCE_DEPTH;

	return &source->scopes[count - 1];
}

static bool conf_source_is_duplicate(struct conf_source *source, const struct conf_source_key *key)
{
	const char *text = source->text.data;
	unsigned int line, first_line;
	const char *file, *first_file;

	for (size_t i = 0; i < source->key_count; i++) {
		const struct conf_source_key *other = &source->keys[i];

		if (other->scope != key->scope || other->count != key->count ||
		    memcmp(text + other->start, text + key->start, key->count) != 0)
			continue;
		file = conf_source_place(source, key->line, &line);
		first_file = conf_source_place(source, other->line, &first_line);
		conf_report_add(source->report, file, line, "%.*s: is set a second time; the first is at %s:%u", (int)key->count,
				text + key->start, first_file, first_line);
		return true;
	}
	return false;
}

void conf_source_add_key(struct conf_source *source, uint32_t start, uint32_t count)
{
	struct conf_source_key key = {
		.scope = conf_source_scope(source)->id, .line = conf_source_current(source), .start = start, .count = count};
	unsigned int line;
	const char *file;

	if (!source->keys)
		source->keys = calloc(CONF_SOURCE_KEYS, sizeof(*source->keys));
	if (!source->keys) {
		source->report->no_memory = true;
		return;
	}
	if (source->key_count == CONF_SOURCE_KEYS) {
		file = conf_source_place(source, key.line, &line);
		if (!source->too_many)
			conf_report_add(source->report, file, line, "too many settings: at most %d", CONF_SOURCE_KEYS);
		source->too_many = true;
		return;
	}
	if (conf_source_is_duplicate(source, &key))
		return;
	source->keys[source->key_count++] = key;
}

void conf_source_open(struct conf_source *source, char bracket)
{
	unsigned int line;
	const char *file = conf_source_place(source, conf_source_current(source), &line);
	struct conf_source_scope scope = {.id = ++source->scope_ids, .line = conf_source_current(source), .bracket = bracket};

	if (source->scope_count < CONF_SOURCE_DEPTH)
		source->scopes[source->scope_count] = scope;
	else if (!source->too_deep)
		conf_report_add(source->report, file, line, "brackets are nested more than %d deep", CONF_SOURCE_DEPTH - 1);
	source->too_deep |= source->scope_count >= CONF_SOURCE_DEPTH;
	source->scope_count++;
}

void conf_source_close(struct conf_source *source, char bracket)
{
	const struct conf_source_scope *scope = conf_source_scope(source);
	const char *open = bracket == '}' ? "{" : bracket == ')' ? "(" : "[";
	unsigned int line, open_line;
	const char *file = conf_source_place(source, conf_source_current(source), &line);
	const char *open_file = conf_source_place(source, scope->line, &open_line);

	if (source->scope_count == 1) {
		conf_report_add(source->report, file, line, "there is no \"%s\" for this \"%c\"", open, bracket);
		return;
	}
	if (source->scope_count <= CONF_SOURCE_DEPTH && scope->bracket != *open)
		conf_report_add(source->report, file, line, "\"%c\" cannot close the \"%c\" of %s:%u", bracket, scope->bracket,
				open_file, open_line);
	source->scope_count--;
}

char conf_source_bracket(const struct conf_source *source)
{
	return conf_source_scope(source)->bracket;
}

/* path as seen from the directory of the file that names it; the caller frees it. */
static char *conf_source_resolve(const char *from, const char *path)
{
	const char *slash = strrchr(from, '/');
	struct buf out;
	char *resolved;

	buf_init(&out, 8192);
	if (path[0] != '/' && slash)
		buf_add(&out, from, (size_t)(slash - from) + 1);
	buf_adds(&out, path);
	resolved = buf_ok(&out) ? buf_take(&out) : NULL;
	buf_free(&out);
	return resolved;
}

/* Takes name. Returns false without memory. */
static bool conf_source_add_name(struct conf_source *source, char *name)
{
	char **files = realloc(source->files, (source->file_count + 1) * sizeof(*files));

	if (files)
		source->files = files;
	if (!files || !name) {
		source->report->no_memory = true;
		free(name);
		return false;
	}
	source->files[source->file_count++] = name;
	return true;
}

static void conf_source_scan(struct conf_source *source, uint32_t file, const char *text, size_t len)
{
	const char *name = source->files[file];
	unsigned int line;
	struct fault f;

	if (conf_file_check(text, len, &line, &f)) {
		conf_report_add(source->report, name, line, "%s", f.text);
		return;
	}
	if (source->line_count)
		buf_addc(&source->text, '\n');
	conf_source_begin_line(source, file, 1);
	conf_scan(source, file, text, len);
}

/* The scan of the outermost file is over: is anything still open? */
static void conf_source_finish(struct conf_source *source)
{
	unsigned int line;

	for (; source->scope_count > 1; source->scope_count--) {
		const struct conf_source_scope *scope = conf_source_scope(source);
		const char *file = conf_source_place(source, scope->line, &line);

		if (!source->too_deep)
			conf_report_add(source->report, file, line, "this \"%c\" is never closed", scope->bracket);
	}
	buf_addc(&source->text, '\n'); /* libconfig takes no comment that ends with the text */
	if (!buf_ok(&source->text))
		conf_report_add(source->report, source->files[0], 0, "is too large: at most %zu bytes with all that it includes",
				CONF_SOURCE_MAX);
}

static bool conf_source_is_reading(const struct conf_source *source, const struct stat *status)
{
	for (size_t i = 0; i < source->reading_count; i++)
		if (source->reading[i].device == status->st_dev && source->reading[i].inode == status->st_ino)
			return true;
	return false;
}

/* Reads source->files[file], without its own name in the fault, and scans it. */
static enum lh_err conf_source_read(struct conf_source *source, uint32_t file, struct fault *f)
{
	char *text = NULL;
	struct stat status;
	enum lh_err err;
	size_t len;

	if (source->reading_count == CONF_SOURCE_INCLUDES + 1)
		return fault_set(f, LH_ERR_LIMIT, "files include each other more than %d deep", CONF_SOURCE_INCLUDES);
	err = conf_file_read(source->files[file], CONF_SOURCE_FILE_MAX, &text, &len, &status, f);
	if (!err && conf_source_is_reading(source, &status))
		err = fault_set(f, LH_ERR_INPUT, "includes itself");
	if (!err) {
		source->reading[source->reading_count++] = (struct conf_source_file){status.st_dev, status.st_ino};
		conf_source_scan(source, file, text, len);
		source->reading_count--;
	}
	free(text);
	return err;
}

void conf_source_include(struct conf_source *source, uint32_t from_file, uint32_t from_line, const char *path)
{
	const char *from = source->files[from_file];
	uint32_t file = (uint32_t)source->file_count;
	struct fault f;

	if (!buf_ok(&source->text))
		return;
	if (source->file_count == CONF_SOURCE_FILES) {
		conf_report_add(source->report, from, from_line, "@include: more than %d files", CONF_SOURCE_FILES);
		return;
	}
	if (conf_source_add_name(source, conf_source_resolve(from, path)) && conf_source_read(source, file, &f))
		conf_report_add(source->report, from, from_line, "@include: %s: %s", source->files[file], f.text);
}

void conf_source_read_text(struct conf_source *source, const char *text, const char *name)
{
	if (!conf_source_add_name(source, strdup(name)))
		return;
	conf_source_scan(source, 0, text, strlen(text));
	conf_source_finish(source);
}

void conf_source_read_file(struct conf_source *source, const char *path)
{
	struct fault f;

	if (!conf_source_add_name(source, strdup(path)))
		return;
	if (conf_source_read(source, 0, &f))
		conf_report_add(source->report, path, 0, "%s", f.text);
	else
		conf_source_finish(source);
}
