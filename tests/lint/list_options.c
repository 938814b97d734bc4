/* list_options.c - prints the option table for tests/lint/options: name, default ("-" = none) and the facts that the sample file
 * and the manual page must state, word for word. A tab between them. */
#include "config/conf.h"

#include <stdio.h>
#include <string.h>

static void list_options_print_type(const struct conf_option *option)
{
	if (option->type == CONF_STRING && option->unit)
		printf("%s", option->unit);
	else if (option->type == CONF_INT && option->unit)
		printf("%s of %s", conf_type_name(option->type), option->unit);
	else
		printf("%s", conf_type_name(option->type));
}

static void list_options_print_default(const struct conf_option *option)
{
	if (option->required)
		printf("required");
	else if (option->computed)
		printf("default: %s", option->computed);
	else if (option->fallback)
		printf("default %s", option->fallback);
	else
		printf("not set by default");
}

int main(void)
{
	char range[64];

	for (size_t i = 0; i < conf_option_count; i++) {
		const struct conf_option *option = &conf_options[i];

		printf("%s.%s\t%s\t", option->group, option->name, option->fallback ? option->fallback : "-");
		list_options_print_type(option);
		if (option->type != CONF_BOOL)
			printf("%s %s", option->type == CONF_CHOICE ? ":" : ",", conf_option_range(option, range, sizeof(range)));
		printf("; ");
		list_options_print_default(option);
		printf("; %s\n", option->reloads ? "SIGHUP suffices" : "needs a restart");
	}
	return 0;
}
