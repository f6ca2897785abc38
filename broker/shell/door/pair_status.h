/* pair_status.h: answers requests about the pair: how this node is (tarry status), and who is to lead.
 *
 * Nothing here decides anything. */
#ifndef TARRY_SHELL_PAIR_STATUS_H
#define TARRY_SHELL_PAIR_STATUS_H

#include "call.h"

struct shell;

/* Answers a call whose request is a checked Pair. Any thread. */
void pair_answer(struct shell *shell, struct call *call);

#endif
