/* conf_secret.c - the password, from the file, the environment or the configuration itself. It is never part of a message. */
#include "config/conf_check.h"
#include "config/conf_file.h"

#include <stdlib.h>
#include <string.h>

#define CONF_SECRET_MAX 4096

static const struct conf_key conf_secret_file_key = {"database", CONF_NO_INDEX, "password_file"};
static const struct conf_key conf_secret_env_key = {"database", CONF_NO_INDEX, "password_env"};

/* NULL when the option is not set or known to be wrong. */
static const char *conf_secret_option(const struct conf_state *state, struct conf_key key)
{
	config_setting_t *setting = conf_state_find(state, key);

	return setting && conf_state_usable(state, key) ? config_setting_get_string(setting) : NULL;
}

static void conf_secret_store(struct conf_state *state, struct conf_key key, const char *text)
{
	struct database_settings *database = &state->settings->database;

	if (!*text) {
		conf_state_refuse(state, key, "the password there is empty");
		return;
	}
	if (database->password)
		return; /* conf_check has refused that there are two */
	database->password = strdup(text);
	if (!database->password)
		state->report.no_memory = true;
}

/* Drops one newline, in either style, from the end. */
static void conf_secret_trim(char *text, size_t len)
{
	if (!len || text[len - 1] != '\n')
		return;
	text[--len] = '\0';
	if (len && text[len - 1] == '\r')
		text[len - 1] = '\0';
}

static void conf_secret_read_file(struct conf_state *state, const char *path)
{
	char *text = NULL, quoted[CONF_QUOTE_SIZE];
	struct fault f;
	struct stat status;
	size_t len;

	if (conf_file_read(path, CONF_SECRET_MAX, &text, &len, &status, &f)) {
		conf_state_refuse(state, conf_secret_file_key, "%s: %s", conf_report_quote(path, quoted), f.text);
		return;
	}
	if (status.st_mode & (S_IROTH | S_IWOTH))
		conf_state_refuse(state, conf_secret_file_key, "%s can be read or written by everyone (mode %04o): chmod o-rw it",
				  conf_report_quote(path, quoted), (unsigned int)status.st_mode & 07777);
	else if (memchr(text, '\0', len))
		conf_state_refuse(state, conf_secret_file_key, "%s holds a NUL byte", conf_report_quote(path, quoted));
	else {
		conf_secret_trim(text, len);
		conf_secret_store(state, conf_secret_file_key, text);
	}
	explicit_bzero(text, len);
	free(text);
}

static void conf_secret_read_env(struct conf_state *state, const char *name)
{
	const char *text = getenv(name);
	char quoted[CONF_QUOTE_SIZE];

	if (text)
		conf_secret_store(state, conf_secret_env_key, text);
	else
		conf_state_refuse(state, conf_secret_env_key, "there is no variable %s in the environment",
				  conf_report_quote(name, quoted));
}

void conf_secret_read(struct conf_state *state)
{
	const char *path = conf_secret_option(state, conf_secret_file_key);
	const char *name = conf_secret_option(state, conf_secret_env_key);

	if (path)
		conf_secret_read_file(state, path);
	if (name)
		conf_secret_read_env(state, name);
}
