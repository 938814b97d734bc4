/* conf_check.h - what a table row cannot say of an option (layer: config, private to this folder; main thread). All
 * report into the state, and skip what is already known to be wrong. */
#ifndef LEASEHOLD_CONFIG_CONF_CHECK_H
#define LEASEHOLD_CONFIG_CONF_CHECK_H

#include "config/conf_state.h"

#include <stdbool.h>

void conf_check(struct conf_state *state);         /* contradictions between options */
void conf_grammar_check(struct conf_state *state); /* names, kinds, commands, environments */
void conf_secret_read(struct conf_state *state);   /* the password, from wherever it is */
void conf_user_resolve(struct conf_state *state);  /* users and groups to ids */

#endif
