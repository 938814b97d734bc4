/* cli_db.c - configuration and connection of a command, and what a failure of either comes to. */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/random.h"
#include "base/utf8.h"
#include "config/conf.h"
#include "store/instance_store.h"

#include <poll.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLI_LOCK_WAIT_S 1
#define CLI_PATIENCE_MS 1500
#define CLI_PAUSE_MIN_MS 5
#define CLI_PAUSE_MAX_MS 50
/* Longer than any statement of admin_store.h is let run by the server, so that its own answer arrives. */
#define CLI_TIMEOUT_MIN_MS 15000

const char *cli_config_file(const struct cli *cli)
{
	const char *file = cli->config_file;

	if (file == NULL)
		file = getenv("LEASEHOLD_CONFIG");
	return file == NULL || file[0] == '\0' ? LEASEHOLD_SYSCONFDIR "/leasehold/leasehold.conf" : file;
}

int cli_load(struct cli *cli)
{
	struct conf_errors errors = {0};
	enum lh_err err;

	if (cli->settings != NULL)
		return CLI_OK;
	/* Only the daemon itself has to be able to become other users. */
	conf_assume_root(cli->command != &cmd_run);
	err = conf_load(cli_config_file(cli), &cli->settings, &errors);
	for (size_t i = 0; i < errors.count; i++)
		cli_say(cli, "%s", errors.lines[i]);
	conf_errors_free(&errors);
	return err == LH_OK ? CLI_OK : CLI_CONFIG;
}

static int cli_exit_code(enum db_class class, const struct fault *f)
{
	switch (class) {
	case DB_OK:
		return CLI_OK;
	case DB_GONE:
	case DB_UNCERTAIN:
	case DB_READONLY:
	case DB_CROWDED:
		/* A read that the server ended because of its length: nothing is wrong with the way there. */
		return f->code == LH_ERR_LIMIT && class == DB_GONE ? CLI_FAILED : CLI_UNREACHABLE;
	case DB_SCHEMA:
		return CLI_CONFIG;
	case DB_RETRY:
	case DB_DUPLICATE:
	case DB_DATA:
	case DB_DENIED:
	case DB_OTHER:
		break;
	}
	return CLI_FAILED;
}

int cli_failed(struct cli *cli, enum db_class class, const struct fault *f, const char *doing)
{
	const char *hint = "";

	if (class == DB_UNCERTAIN)
		hint = "; it may have been done all the same: look before trying again";
	else if (class == DB_DENIED)
		hint = "; see migrations/grants.sql for the roles and what each may do";
	else if (class == DB_RETRY)
		hint = "; another transaction is in the way: try again";
	cli_say(cli, "%s: %s%s", doing, f->text, hint);
	return cli_exit_code(class, f);
}

enum db_class cli_connect(struct cli *cli, enum cli_mode mode, struct fault *f)
{
	struct db_options options = {
		.database = &cli->database, .timeout_ms = cli->settings->database.timeout_ms, .lock_wait_s = CLI_LOCK_WAIT_S};

	if (db_library_init(f) != LH_OK)
		return DB_OTHER;
	cli->library = true;
	cli->database = cli->settings->database;
	if (mode == CLI_READS)
		cli->database.verify_writer = false;
	if (options.timeout_ms < CLI_TIMEOUT_MIN_MS)
		options.timeout_ms = CLI_TIMEOUT_MIN_MS;
	cli->db = db_new(&options);
	if (cli->db == NULL) {
		fault_set(f, LH_ERR_MEMORY, "out of memory");
		return DB_OTHER;
	}
	return db_open(cli->db, f);
}

int cli_refused(enum db_class class)
{
	return class == DB_SCHEMA ? CLI_CONFIG : CLI_UNREACHABLE;
}

int cli_open(struct cli *cli, enum cli_mode mode)
{
	struct fault f = {.code = LH_OK};
	enum db_class class;
	int status = cli_load(cli);

	if (status != CLI_OK)
		return status;
	class = cli_connect(cli, mode, &f);
	if (class != DB_OK) {
		cli_say(cli, "%s", f.text);
		return cli_refused(class);
	}
	if (mode == CLI_PRODUCES)
		return CLI_OK;
	class = instance_store_check_schema(cli->db, NULL, &f);
	return class == DB_OK ? CLI_OK : cli_failed(cli, class, &f, "schema");
}

int64_t cli_patience(void)
{
	return clock_mono_ms() + CLI_PATIENCE_MS;
}

bool cli_again(enum db_class class, int64_t until_ms)
{
	if (class != DB_RETRY || clock_mono_ms() >= until_ms)
		return false;
	(void)poll(NULL, 0, CLI_PAUSE_MIN_MS + (int)random_below(CLI_PAUSE_MAX_MS - CLI_PAUSE_MIN_MS + 1));
	return true;
}

char *cli_person(char *out, size_t size)
{
	char host[256] = "", login[256] = "", store[1024];
	struct passwd entry, *found = NULL;
	struct buf text;

	if (gethostname(host, sizeof(host) - 1) != 0)
		host[0] = '\0';
	if (getpwuid_r(getuid(), &entry, store, sizeof(store), &found) == 0 && found != NULL)
		snprintf(login, sizeof(login), "%s", found->pw_name);
	else
		snprintf(login, sizeof(login), "%u", (unsigned int)getuid());
	buf_init(&text, 4 * sizeof(host) + 4 * sizeof(login));
	utf8_sanitise(&text, login, strlen(login));
	buf_addc(&text, '@');
	utf8_sanitise(&text, host, strlen(host));
	snprintf(out, size, "%.*s", (int)utf8_cut(text.data, text.len < size ? text.len : size - 1), text.data);
	buf_free(&text);
	return out;
}
