/* check_op.c: checks operations and other requests field by field; see check.h. The core checks everything that
 * needs state, such as the existence of a queue or the distance of an absolute time. */
#include "check.h"

#include <string.h>

#include "queue_policy.h"
#include "requests.h"
#include "row.h"
#include "tarry_limits.h"

_Static_assert(LEASE_MIN_MS == 10 && LEASE_MAX_MS == 86400000, "sentences");
_Static_assert(BACKOFF_MAX_MS == 30ull * 86400000 && TASK_ATTEMPTS_MAX == 10000, "sentences");
_Static_assert(PAUSE_MAX_MS == 3653ull * 86400000, "sentences");
_Static_assert(REASON_SIZE_MAX == 255 && SERIAL_SIZE_MAX == 255, "sentences");

static const char reason_long[] = "reason is longer than 255 bytes";
static const char serial_long[] = "serial is longer than 255 bytes";
static const char op_unknown[] = "this broker does not know the operation; the client may be newer than the broker";
static const char policy_unknown[] =
    "this broker does not know the policy field; the client may be newer than the broker";

static const char *check_when(const Tarry__When *when) {
    if (when == NULL) return "the time (when) is missing";
    switch (when->kind) {
    case TARRY__WHEN__KIND__DELAY:
        return when->ms <= DUE_AHEAD_MAX_MS ? NULL : "delay is longer than ten years (3653 days)";
    case TARRY__WHEN__KIND__AT:
        return NULL; /* Every time is valid: a past time is allowed, and this function has no clock to check a limit for
                        the future */
    default:
        return "the kind of time (when.kind) is unknown";
    }
}

static const char queue_dots[] = "queue name must not be . or .., because an HTTP path cannot contain them";
static const char key_dots[] = "key must not be . or .., because an HTTP path cannot contain them";
static const char priority_high[] = "priority must be at most 9";

static const char *check_priority(bool has_priority, uint32_t priority) {
    if (!has_priority) return priority == 0 ? NULL : "priority is given, but has_priority is not set";
    return priority < PRIORITY_COUNT ? NULL : priority_high;
}

static const char *check_serial(const void *serial, size_t size) {
    if (size > SERIAL_SIZE_MAX) return serial_long;
    switch (check_text(serial, size)) {
    case TEXT_BROKEN:
        return "serial is not UTF-8";
    case TEXT_NUL:
    case TEXT_CONTROL:
        return "serial contains a control character";
    case TEXT_PLAIN:
        break;
    }
    return NULL;
}

static const char *check_lease_ms(uint64_t lease_ms) {
    if (lease_ms < LEASE_MIN_MS) return "lease_ms must be at least 10 ms";
    return lease_ms <= LEASE_MAX_MS ? NULL : "lease_ms must be at most 24 hours";
}

/* Checks the settings that a task has itself instead of its queue's policy (OWN-1). */
static const char *check_own(const Tarry__Schedule *schedule) {
    if (schedule->max_attempts > TASK_ATTEMPTS_MAX) return "max_attempts of a task must be at most 10000";
    if (schedule->backoff_ms > BACKOFF_MAX_MS) return "backoff_ms must be at most 30 days";
    return schedule->lease_ms == 0 ? NULL : check_lease_ms(schedule->lease_ms);
}

/* Checks all fields of a Schedule except its content. */
static const char *check_schedule(const Tarry__Schedule *schedule) {
    const char *problem = check_queue_name(schedule->queue);
    if (problem == NULL && name_is_dots(schedule->queue, strlen(schedule->queue))) problem = queue_dots;
    if (problem == NULL) problem = check_key(schedule->key.data, schedule->key.len);
    if (problem == NULL && name_is_dots(schedule->key.data, schedule->key.len)) problem = key_dots;
    if (problem == NULL) problem = check_serial(schedule->serial.data, schedule->serial.len);
    if (problem == NULL && occurrence_name_size(schedule->key.data, schedule->key.len) != 0)
        problem = "keys of the form recur:NAME@TIME belong to recurrences: use another key";
    if (problem == NULL) problem = check_when(schedule->when);
    if (problem != NULL) return problem;
    if (schedule->priority >= PRIORITY_COUNT) return priority_high;
    /* The same limit as for delays. The later sum of due time and expires_ms saturates, so it does not overflow. */
    if (schedule->expires_ms > DUE_AHEAD_MAX_MS) return "expires_ms is longer than ten years (3653 days)";
    problem = check_own(schedule);
    if (problem != NULL) return problem;
    switch (schedule->on_conflict) {
    case TARRY__SCHEDULE__ON_CONFLICT__REJECT:
    case TARRY__SCHEDULE__ON_CONFLICT__REPLACE:
    case TARRY__SCHEDULE__ON_CONFLICT__EARLIER:
    case TARRY__SCHEDULE__ON_CONFLICT__LATER:
        return NULL;
    default:
        return "on_conflict is unknown";
    }
}

const char *check_ref(const Tarry__Ref *ref) {
    if (ref == NULL) return "the task is missing: give its id, or its queue and key";
    if (ref->id != 0) return NULL;
    if (ref->queue[0] == '\0' && ref->key.len == 0)
        return "the task is missing: give either its id, or its queue and key";
    const char *problem = check_queue_name(ref->queue);
    if (problem != NULL) return problem;
    if (ref->key.len == 0) return "key is empty";
    return check_key(ref->key.data, ref->key.len);
}

static const char *check_move(const Tarry__Move *move) {
    const char *problem = check_ref(move->task);
    if (problem == NULL) problem = check_when(move->when);
    return problem != NULL ? problem : check_priority(move->has_priority, move->priority);
}

static const char *check_lease(uint64_t id, const Tarry__Token *token) {
    if (id == 0) return "id is missing";
    return token != NULL ? NULL : "token is missing";
}

static const char *check_release(const Tarry__Release *release) {
    const char *problem = check_lease(release->id, release->token);
    if (problem == NULL && release->when != NULL) problem = check_when(release->when);
    return problem != NULL ? problem : check_priority(release->has_priority, release->priority);
}

static const char *check_nack(const Tarry__Nack *nack) {
    const char *problem = check_lease(nack->id, nack->token);
    if (problem != NULL) return problem;
    if (nack->has_delay && nack->dead) return "a nack must not have both a delay and dead";
    if (nack->has_delay && nack->delay_ms > DUE_AHEAD_MAX_MS) return "delay is longer than ten years (3653 days)";
    size_t size = strnlen(nack->reason, REASON_SIZE_MAX + 1);
    if (size > REASON_SIZE_MAX) return reason_long;
    return is_utf8(nack->reason, size) ? NULL : "reason is not UTF-8";
}

static const char *check_extend(const Tarry__Extend *extend) {
    const char *problem = check_lease(extend->id, extend->token);
    return problem != NULL || extend->lease_ms == 0 ? problem : check_lease_ms(extend->lease_ms);
}

static const char *check_dead(const Tarry__DeadOp *dead) {
    if (dead->what != TARRY__DEAD_OP__WHAT__REQUEUE && dead->what != TARRY__DEAD_OP__WHAT__DROP)
        return "the field what of a dead-letter operation is unknown";
    if (!dead->all) return check_ref(dead->task);
    return dead->task != NULL ? check_queue_name(dead->task->queue) : "queue name is empty";
}

static const char *check_fan_out(const Tarry__FanOut *fan_out) {
    const char *problem = check_lease(fan_out->id, fan_out->token);
    if (problem != NULL) return problem;
    return fan_out->n_attributes <= ATTRIBUTES_MAX ? NULL : "too many attributes";
}

static const char *check_policy_push(const char *url) {
    return check_push_url(url);
}

/* Checks the filter's size and characters. The core checks the filter's grammar, because that error message contains
 * the position of the wrong byte, and a check can only return a constant sentence. */
static const char *check_policy_filter(const char *filter) {
    _Static_assert(FILTER_SIZE_MAX == 512, "the sentence below");
    const size_t size = strnlen(filter, FILTER_SIZE_MAX + 1);
    if (size > FILTER_SIZE_MAX) return "filter is longer than 512 bytes (FILTER_SIZE_MAX)";
    return is_utf8(filter, size) ? NULL : "filter is not UTF-8";
}

static const char *check_policy_field(const Tarry__Policy *policy, const char *field) {
    /* value_min is a variable, because -Wtype-limits would warn about comparing an unsigned value with the constant 0.
     */
#define POLICY_NUMBER(name, word, option, kind, least, most, range, preset, argument, help)                            \
    if (strcmp(field, #name) == 0) {                                                                                   \
        uint64_t value = policy->name, value_min = (least), value_max = (most);                                        \
        return value_min <= value && value <= value_max ? NULL : #name " is out of range (" range ")";                 \
    }
#define POLICY_TEXT(name, argument, help)                                                                              \
    if (strcmp(field, #name) == 0) return check_policy_##name(policy->name);
#include "policy.def"
    if (strcmp(field, "lease_before_due") == 0) return NULL;
    return policy_unknown;
}

static const char *check_queue_set(const Tarry__QueueSet *set) {
    const char *problem = check_queue_name(set->queue);
    if (problem == NULL && name_is_dots(set->queue, strlen(set->queue))) problem = queue_dots;
    if (problem != NULL) return problem;
    if (set->n_fields == 0) return NULL; /* valid: a QueueSet without fields only creates a missing queue */
    if (set->policy == NULL) return "policy is missing";
    /* Checks the number of fields before the loop below compares their names with each other, to limit that work. */
    if (set->n_fields > POLICY_FIELDS + POLICY_FIELDS_OWN) return "more policy fields than exist";
    for (size_t i = 0; i < set->n_fields; i++) {
        problem = check_policy_field(set->policy, set->fields[i]);
        if (problem != NULL) return problem;
        for (size_t j = 0; j < i; j++)
            if (strcmp(set->fields[i], set->fields[j]) == 0) return "a policy field is given twice";
    }
    return NULL;
}

static const char *check_queue_pause(const Tarry__QueuePause *pause) {
    if (!pause->paused && pause->for_ms != 0) return "for_ms is allowed only for a pause";
    if (pause->for_ms > PAUSE_MAX_MS) return "for_ms is longer than ten years (3653 days)";
    return check_queue_name(pause->queue);
}

static const char *check_queue_purge(const Tarry__QueuePurge *purge) {
    if ((purge->states & ~STATE_ALL) != 0) return "states has a bit that is unknown to this broker";
    return check_queue_name(purge->queue);
}

/* Checks a redaction: of one task by id, of all tasks with a key, or of a queue's tasks in a time range. */
static const char *check_redact(const Tarry__Redact *redact) {
    const Tarry__Ref *ref = redact->task;
    bool is_range = ref != NULL && ref->id == 0 && ref->key.len == 0 && ref->queue[0] != '\0';
    const char *problem = is_range ? check_queue_name(ref->queue) : check_ref(ref);
    if (problem != NULL) return problem;
    if (is_range && redact->from_ms == 0 && redact->to_ms == 0)
        return "a redaction must have an id, or a queue and a key, or a queue and a time range";
    if (!is_range && (redact->from_ms != 0 || redact->to_ms != 0))
        return "a time range is allowed only with a queue and without key and id";
    if (ref->id != 0 && redact->after_id != 0)
        return "after_id is allowed with a key or a queue, but not with a task's id";
    if (redact->to_ms != 0 && redact->to_ms <= redact->from_ms) return "the time range is empty (to_ms <= from_ms)";
    size_t size = strnlen(redact->reason, REASON_SIZE_MAX + 1);
    if (size == 0) return "reason is missing: a redaction needs one";
    if (size > REASON_SIZE_MAX) return reason_long;
    return is_utf8(redact->reason, size) ? NULL : "reason is not UTF-8";
}

static bool is_one_of(const char *text, const char *const *words) {
    for (; *words != NULL; words++)
        if (strcmp(text, *words) == 0) return true;
    return false;
}
#define IS_ONE_OF(text, ...) is_one_of(text, (const char *const[]){"", __VA_ARGS__, NULL})

static const char *check_recur_name(const char *queue, const char *name) {
    const char *problem = check_queue_name(queue);
    if (problem == NULL && name_is_dots(queue, strlen(queue))) problem = queue_dots;
    if (problem != NULL) return problem;
    const size_t size = strnlen(name, RECUR_NAME_SIZE_MAX + 1);
    if (size == 0) return "the recurrence's name is empty";
    if (size > RECUR_NAME_SIZE_MAX) return "the recurrence's name is longer than 128 bytes (RECUR_NAME_SIZE_MAX)";
    if (name_is_dots(name, size)) return "name must not be . or .., because an HTTP path cannot contain them";
    if (memchr(name, '@', size) != NULL) return "the recurrence's name must not contain @, which ends it in keys";
    return check_text(name, size) == TEXT_PLAIN ? NULL
                                                : "the recurrence's name is not UTF-8 without control characters";
}

/* Returns whether the text begins as a time does: 2026-11-28T09:00:00. */
static bool begins_as_time(const char *text, size_t size) {
    static const char form[] = "0000-00-00T00:00:00";
    if (size < sizeof(form) - 1) return false;
    for (size_t i = 0; i < sizeof(form) - 1; i++)
        if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i]) return false;
    return true;
}

size_t occurrence_name_size(const void *key, size_t size) {
    if (size < OCCURRENCE_PREFIX_SIZE || memcmp(key, OCCURRENCE_PREFIX, OCCURRENCE_PREFIX_SIZE) != 0) return 0;
    const char *name = (const char *)key + OCCURRENCE_PREFIX_SIZE, *end = (const char *)key + size;
    const char *at = memchr(name, '@', (size_t)(end - name));
    return at != NULL && begins_as_time(at + 1, (size_t)(end - at - 1)) ? (size_t)(at - name) : 0;
}

bool recur_missed_count(const char *missed, uint32_t *out) {
    uint32_t count = 0;
    if (strncmp(missed, "all:", 4) != 0) return false;
    size_t size = 0;
    for (missed += 4; *missed >= '0' && *missed <= '9' && size < 4; missed++, size++)
        count = count * 10 + (uint32_t)(*missed - '0');
    *out = count;
    return *missed == '\0' && count >= 1 && count <= RECUR_MISSED_MAX;
}

static const char *check_recur_words(const Tarry__RecurSet *set) {
    uint32_t count;
    if (!IS_ONE_OF(set->gap, "next", "skip")) return "gap must be next or skip";
    if (!IS_ONE_OF(set->fold, "first", "both")) return "fold must be first or both";
    if (!IS_ONE_OF(set->overlap, "skip", "queue-one", "allow")) return "overlap must be skip, queue-one or allow";
    if (!IS_ONE_OF(set->days, "and", "or")) return "days must be and or or";
    if (IS_ONE_OF(set->missed, "last", "none")) return NULL;
    if (!recur_missed_count(set->missed, &count)) return "missed must be last, none, or all:N with N from 1 to 100";
    if (count > 1 && strcmp(set->overlap, "allow") != 0)
        return "missed all:N with N above 1 needs overlap allow: otherwise all but one would be skipped";
    return NULL;
}

/* Checks what needs no calendar. The core refuses an expression or a zone that is wrong. */
static const char *check_recur_set(const Tarry__RecurSet *set) {
    const char *problem = check_recur_name(set->queue, set->name);
    if (problem == NULL) problem = check_recur_words(set);
    if (problem != NULL) return problem;
    if (strnlen(set->cron, RECUR_TEXT_SIZE_MAX + 1) > RECUR_TEXT_SIZE_MAX)
        return "cron is longer than 512 bytes (RECUR_TEXT_SIZE_MAX)";
    if (strnlen(set->rrule, RECUR_TEXT_SIZE_MAX + 1) > RECUR_TEXT_SIZE_MAX)
        return "rrule is longer than 512 bytes (RECUR_TEXT_SIZE_MAX)";
    if (strnlen(set->zone, RECUR_ZONE_SIZE_MAX + 1) > RECUR_ZONE_SIZE_MAX)
        return "zone is longer than 64 bytes (RECUR_ZONE_SIZE_MAX)";
    if ((set->cron[0] != '\0') + (set->rrule[0] != '\0') + (set->every_ms != 0) != 1)
        return "give exactly one of cron, every and rrule";
    if (set->from_ms > CALENDAR_TIME_MAX_MS || set->until_ms > CALENDAR_TIME_MAX_MS)
        return "from and until must be before the year 10000";
    if (set->jitter_ms > RECUR_JITTER_MAX_MS) return "jitter is longer than 24 hours";
    if (set->missed_window_ms > DUE_AHEAD_MAX_MS) return "missed_window is longer than ten years (3653 days)";
    if (set->count > UINT32_MAX) return "count must be at most 4294967295";
    if (set->priority >= PRIORITY_COUNT) return priority_high;
    return set->expires_ms <= DUE_AHEAD_MAX_MS ? NULL : "expires_ms is longer than ten years (3653 days)";
}

static const char *check_recur_do(const Tarry__RecurDo *order) {
    if (order->what > TARRY__RECUR_DO__WHAT__DELETE) return "the field what of the recurrence's operation is unknown";
    return check_recur_name(order->queue, order->name);
}

const char *check_pair(const Tarry__Pair *pair) {
    bool promotes = pair->what == TARRY__PAIR__WHAT__PROMOTE, writes = pair->what == TARRY__PAIR__WHAT__WRITE_RECORD;
    if (pair->what > TARRY__PAIR__WHAT__WRITE_RECORD) return "the field what must be status, promote, demote or record";
    if ((pair->force && !promotes) || (pair->peer_is_stopped && !promotes && !writes))
        return "force is allowed only with promote, and peer_is_stopped only with promote and write_record";
    return pair->peer_is_stopped && pair->force ? "peer_is_stopped and force exclude each other" : NULL;
}

_Static_assert(DEFINITION_SPACE_SIZE_MAX == 32 && DEFINITION_NAME_SIZE_MAX == 255, "sentences");
_Static_assert(DEFINITION_VALUE_SIZE_MAX == 16384, "sentences");

const char *check_space(const char *space) {
    size_t size = strnlen(space, DEFINITION_SPACE_SIZE_MAX + 1);
    if (size == 0) return "space is empty";
    if (size > DEFINITION_SPACE_SIZE_MAX) return "space is longer than 32 bytes";
    bool is_plain = strspn(space, "abcdefghijklmnopqrstuvwxyz0123456789-") == size;
    return is_plain ? NULL : "space must consist of a-z, 0-9 and -";
}

static const char *check_define(const Tarry__Define *define) {
    const char *problem = check_space(define->space);
    if (problem != NULL) return problem;
    if (define->name.len == 0) return "name is empty";
    if (define->name.len > DEFINITION_NAME_SIZE_MAX) return "name is longer than 255 bytes";
    if (define->value.len > DEFINITION_VALUE_SIZE_MAX) return "value is longer than 16384 bytes";
    if (define->deleted && define->value.len > 0) return "value is given, but deleted is set";
    return define->has_expected || define->expected == 0 ? NULL : "expected is given, but has_expected is not set";
}

static const char *check_any(const Tarry__Op *op) {
    switch (op->op_case) {
#define OPERATION(CASE, member, Message, target, roles, reach, creates, job, check, ...)                               \
    case TARRY__OP__OP_##CASE: {                                                                                       \
        const Tarry__##Message *m = op->member;                                                                        \
        return check;                                                                                                  \
    }
#include "requests.def"
        OPERATION_UNKNOWN
    }
    return op_unknown;
}

const char *check_op(const Tarry__Op *op, uint32_t payload_max, Tarry__Code *out_code) {
    bool too_large = false;
    const char *problem = check_any(op);
    if (problem == NULL && op->op_case == TARRY__OP__OP_SCHEDULE) {
        const ProtobufCBinaryData *content = &op->schedule->content;
        problem = check_content(content->data, content->len, payload_max, &too_large);
    }
    if (problem == NULL && op->op_case == TARRY__OP__OP_RECUR_SET) {
        const ProtobufCBinaryData *content = &op->recur_set->content;
        too_large = content->len > RECUR_CONTENT_SIZE_MAX;
        problem = too_large ? "body and attributes of a recurrence are larger than 16 KiB (RECUR_CONTENT_SIZE_MAX)"
                            : check_content(content->data, content->len, payload_max, &too_large);
    }
    if (problem == NULL) return NULL;
    if (problem == op_unknown || problem == policy_unknown) {
        *out_code = TARRY__CODE__UNSUPPORTED;
    } else if (too_large || problem == check_name_long || problem == check_key_long || problem == reason_long ||
               problem == serial_long) {
        *out_code = TARRY__CODE__TOO_LARGE;
    } else {
        *out_code = TARRY__CODE__INVALID;
    }
    return problem;
}
