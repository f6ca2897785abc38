/* gateways.c: see gateways.h. All functions are called on the door's thread. */
#include "gateways.h"

#include "authorizer.h"
#include "lanes.h"
#include "rpc.h"
#include "run.h"

static const struct gateways_needs *needs_of(void *argument) {
    return argument;
}

static bool on_request(void *argument, uint64_t from, uint64_t principal, const char *peer, struct message *request) {
    return rpc_request(needs_of(argument)->rpc, from, principal, peer, request);
}

static bool on_has_spare(void *argument, uint64_t principal, size_t size) {
    return rpc_has_spare(needs_of(argument)->rpc, principal_of(principal), size);
}

static uint64_t on_hold(void *argument, uint64_t principal) {
    return (uint64_t)(uintptr_t)access_hold(principal_of(principal));
}

static void on_release(void *argument, uint64_t principal) {
    access_release(principal_of(principal));
}

static const char *on_name(void *argument, uint64_t principal) {
    return access_record_name(principal_of(principal));
}

static void on_who(void *argument, uint64_t principal, struct gateway_who *out) {
    _Static_assert(GATEWAY_ROLES_SIZE >= ROLES_TEXT_SIZE, "roles fit");
    const struct access_principal *who = principal_of(principal);
    out->name = who->entry.name;
    const Tarry__Request stats = {.body_case = TARRY__REQUEST__BODY_STATS};
    roles_format(who->entry.roles, " ", out->roles);
    out->may_look = (who->entry.roles & access_rule_of_request(&stats)->roles) != 0;
    out->is_confined = access_is_confined(who);
}

static uint64_t on_own(void *argument) {
    return authorizer_own(needs_of(argument)->authorizer);
}

static Tarry__Code on_may_key(void *argument, uint64_t principal, const Tarry__Commit *commit,
                              char sentence[GATEWAY_SENTENCE_SIZE]) {
    const struct gateways_needs *needs = argument;
    return authorizer_judge_key(needs->authorizer, principal_of(principal), commit, sentence);
}

static Tarry__Code on_pay(void *argument, uint64_t principal, const struct gateway_deed *deed,
                          char sentence[GATEWAY_SENTENCE_SIZE]) {
    const struct gateways_needs *needs = argument;
    return authorizer_judge_deed(needs->authorizer, principal_of(principal), deed->leases, deed->operations, sentence);
}

static void on_unpay(void *argument, uint64_t principal) {
    (void)argument;
    access_give_rate(principal_of(principal), 1);
}

static Tarry__Code on_may_lease(void *argument, uint64_t principal, const char *const *queues, size_t queue_count,
                                char sentence[GATEWAY_SENTENCE_SIZE]) {
    _Static_assert(GATEWAY_SENTENCE_SIZE >= ACCESS_SENTENCE_SIZE, "a sentence fits");
    const struct gateways_needs *needs = argument;
    if (atomic_load(&needs->run->stopping)) return TARRY__CODE__STOPPING;
    return authorizer_judge_lease(needs->authorizer, principal_of(principal), queues, queue_count, sentence);
}

static bool on_may(void *argument, uint64_t principal, Tarry__Op__OpCase operation, const char *queue,
                   char sentence[GATEWAY_SENTENCE_SIZE]) {
    const struct gateways_needs *needs = argument;
    return authorizer_judge_op(needs->authorizer, principal_of(principal), operation, queue, sentence);
}

static uint32_t on_epoch(void *argument) {
    return atomic_load(&needs_of(argument)->run->epoch);
}

static bool on_lane_up(void *argument, uint32_t lane, uint64_t session, uint64_t id) {
    return lanes_up(needs_of(argument)->lanes, lane, session, id);
}

static void on_lane_sent(void *argument, uint32_t lane, uint64_t turn, bool left, uint64_t stamp) {
    lanes_sent(needs_of(argument)->lanes, lane, turn, left, stamp);
}

static void on_lane_credit(void *argument, uint32_t lane, uint64_t session, uint32_t credit) {
    lanes_credit(needs_of(argument)->lanes, lane, session, credit);
}

struct gateway *gateways_new(const struct gateways_needs *needs) {
    const struct gateway_calls calls = {
        .argument = (void *)needs,
        .request = on_request,
        .has_spare = on_has_spare,
        .hold = on_hold,
        .release = on_release,
        .name = on_name,
        .who = on_who,
        .own = on_own,
        .may_key = on_may_key,
        .pay = on_pay,
        .unpay = on_unpay,
        .may_lease = on_may_lease,
        .may = on_may,
        .epoch = on_epoch,
        .lane_up = on_lane_up,
        .lane_sent = on_lane_sent,
        .lane_credit = on_lane_credit,
    };
    return gateway_new(&calls);
}
