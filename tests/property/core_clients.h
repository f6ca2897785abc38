/* core_clients.h: random clients of a history: producers that commit and repeat, consumers that come and go. */
#ifndef TARRY_TESTS_CORE_CLIENTS_H
#define TARRY_TESTS_CORE_CLIENTS_H

#include "core_ledger.h"

#define QUEUES 3
extern const char *const queue_names[QUEUES];

bool one_in(struct ledger *ledger, uint64_t n);
/* One random thing that a client does. */
void client_turn(struct ledger *ledger);
void client_hello(struct ledger *ledger);
/* `resume`: a session of before a crash, or 0. */
void client_subscribe(struct ledger *ledger, uint64_t resume);
/* What has not been answered, again under the same sequence. */
void client_repeat_open(struct ledger *ledger);
void client_resume_queues(struct ledger *ledger);
void client_ack_held(struct ledger *ledger);
size_t client_sessions(const struct ledger *ledger);

#endif
