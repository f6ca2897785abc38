/* pair_status.c: see pair_status.h. A broker without a peer is always the primary. */
#include "pair_status.h"

#include "authorizer.h"
#include "clock.h"
#include "datadir.h"
#include "disk_hang.h"
#include "endpoints.h"
#include "log.h"
#include "node.h"
#include "run.h"
#include "tls.h"

static const char no_peer[] =
    "this broker has no peer, so it cannot hand over and has no record; the option --peer makes a pair (tarryd(8))";

void pair_answer(const struct pair_status *here, struct call *call) {
    const Tarry__Pair *request = call->engine_request.event.request.message->pair;
    if (here->node->on && request->what == TARRY__PAIR__WHAT__STATUS) {
        node_status(here->node, call);
        return;
    }
    if (here->node->on) {
        node_word(here->node, call);
        return;
    }
    bool is_status = request->what == TARRY__PAIR__WHAT__STATUS || request->what == TARRY__PAIR__WHAT__PROMOTE;
    if (!is_status) {
        call->answer(call, reply_pack_refusal(TARRY__CODE__NOT_DONE, no_peer));
        return;
    }
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__PairReply status = TARRY__PAIR_REPLY__INIT;
    char member[MEMBER_TEXT_SIZE];
    char hangs[DISK_HANG_PROBLEM_SIZE], about_tls[TLS_SENTENCE_SIZE];
    const char *problem = disk_hang_problem(here->hang, hangs);
    if (problem == NULL) problem = tls_problem(here->tls, about_tls);
    struct authorizer_numbers access;
    authorizer_numbers(here->authorizer, &access);
    status.problem = problem != NULL ? (char *)problem : access.problem;
    member_format(here->dir->member.id, member);
    status.role = TARRY__PAIR_REPLY__ROLE__PRIMARY;
    status.epoch = atomic_load(&here->run->epoch);
    status.cluster = (ProtobufCBinaryData){CLUSTER_ID_SIZE, here->dir->cluster};
    status.member = member;
    status.url = status.primary = here->run->url;
    status.urls = here->endpoints->urls;
    status.n_urls = here->endpoints->count;
    status.since_ms = here->run->started_ms;
    status.now_ms = instant_ms(clock_now(here->clock, NULL));
    status.appended = status.durable = status.committed = status.applied = log_durable(here->log);
    reply.body_case = TARRY__REPLY__BODY_PAIR;
    reply.pair = &status;
    call->answer(call, reply_pack(&reply));
}
