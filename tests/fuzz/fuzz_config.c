/* fuzz_config.c - any text as a configuration file: settings, or errors that say what is wrong; never both, and never the end of
 * the process. */
#include "fuzz.h"

#include "config/conf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_errors errors;
	struct settings *settings = NULL;
	char *text = malloc(size + 1);
	enum lh_err err;

	FUZZ_HOLDS(text != NULL);
	memcpy(text, data, size);
	text[size] = '\0';
	/* Files of this machine are not part of the input. */
	if (strstr(text, "include") == NULL) {
		err = conf_load_text(text, "fuzz.conf", &settings, &errors);
		FUZZ_HOLDS((err == LH_OK) == (settings != NULL));
		FUZZ_HOLDS(err == LH_OK || errors.count > 0);
		if (settings != NULL)
			FUZZ_HOLDS(settings->pool_count > 0 && settings->lease.heartbeat_ms * 3 <= settings->lease.length_ms);
		settings_unref(settings);
		conf_errors_free(&errors);
	}
	free(text);
	return 0;
}
