/* config_pair.h: what the options of a pair say together, and what they leave unsaid. Pure. */
#ifndef TARRY_SHELL_CONFIG_PAIR_H
#define TARRY_SHELL_CONFIG_PAIR_H

#include "config.h"

/* Fills in what was not said. 0, or 1 with a sentence. */
int config_resolve_pair(struct config *config, char message[CONFIG_MESSAGE_SIZE]);

#endif
