/* config_tls.h: what the options of TLS say together. Pure. */
#ifndef TARRY_SHELL_CONFIG_TLS_H
#define TARRY_SHELL_CONFIG_TLS_H

#include "config.h"

/* It listens at wss://, or its peer does. */
bool config_uses_tls(const struct config *config);
/* 0, or 1 with a sentence. */
int config_check_tls(const struct config *config, char message[CONFIG_MESSAGE_SIZE]);

#endif
