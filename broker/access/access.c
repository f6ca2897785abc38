/* access.c: see access.h. */
#include "access.h"

#include <assert.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tarry_limits.h"

#define TOKEN_PREFIX "tarry_"
#define TOKEN_BYTES 32
#define OVERFLOW_UID 65534u /* /proc/sys/kernel/overflowuid */

/* ---- tokens */

void access_token_make(char out[ACCESS_TOKEN_TEXT_SIZE], uint8_t out_hash[ACCESS_HASH_SIZE]) {
    uint8_t bytes[TOKEN_BYTES];
    randombytes_buf(bytes, sizeof(bytes));
    memcpy(out, TOKEN_PREFIX, sizeof(TOKEN_PREFIX) - 1);
    sodium_bin2base64(out + sizeof(TOKEN_PREFIX) - 1, ACCESS_TOKEN_TEXT_SIZE - (sizeof(TOKEN_PREFIX) - 1), bytes,
                      sizeof(bytes), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    sodium_memzero(bytes, sizeof(bytes));
    (void)access_token_hash(out, strlen(out), out_hash);
}

bool access_token_hash(const char *token, size_t size, uint8_t out[ACCESS_HASH_SIZE]) {
    if (size == 0 || size > ACCESS_TOKEN_SIZE_MAX) return false;
    crypto_generichash(out, ACCESS_HASH_SIZE, (const uint8_t *)token, size, NULL, 0);
    return true;
}

/* ---- names */

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._-@", c) != NULL);
}

const char *access_name_problem(const char *name, size_t size) {
    if (size == 0 || size > ACCESS_NAME_SIZE_MAX) return "a name must have 1 to 64 characters";
    for (size_t i = 0; i < size; i++)
        if (!is_name_character(name[i])) return "a name may contain only letters, digits and . _ - @";
    return NULL;
}

const char *access_prefix_problem(const char *prefix, size_t size) {
    char name[QUEUE_NAME_SIZE_MAX + 1];
    if (size == 0) return "a queue prefix must not be empty; omit it to allow all queues";
    if (size > QUEUE_NAME_SIZE_MAX) return "a queue prefix may have at most 128 bytes, like a queue's name";
    if (memchr(prefix, '\0', size) != NULL) return "a queue prefix must not contain a 0 byte";
    memcpy(name, prefix, size);
    /* A name must not end with a blank, but a prefix may, because a longer name continues after it. */
    if (name[size - 1] == ' ') name[size - 1] = '.';
    name[size] = '\0';
    return check_queue_name(name);
}

struct limit {
    const char *name;
    uint64_t least, most;
};
#define X(name, least, most, text) {#name, least, most},
static const struct limit limits[LIMITS] = {ACCESS_LIMITS(X)};
#undef X

const char *access_limit_name(enum access_limit limit) {
    return limits[limit].name;
}

enum access_limit access_limit_of(const char *name, size_t size) {
    size_t i = 0;
    while (i < LIMITS && (strlen(limits[i].name) != size || memcmp(limits[i].name, name, size) != 0)) i++;
    return (enum access_limit)i;
}

void access_limit_range(enum access_limit limit, uint64_t *out_least, uint64_t *out_most) {
    *out_least = limits[limit].least;
    *out_most = limits[limit].most;
}

/* ---- principals and sets */

/* Orders principals by name. The two rows of a token under renewal have one name, and are ordered by hash. */
static int compare_names(const void *a, const void *b) {
    const struct access_principal *const *x = a, *const *y = b;
    int order = strcmp((*x)->entry.name, (*y)->entry.name);
    return order != 0 ? order : memcmp((*x)->entry.hash, (*y)->entry.hash, ACCESS_HASH_SIZE);
}

/* Makes a principal that is not in the file. */
static struct access_principal *make(const char *name, enum access_kind kind, unsigned roles) {
    struct access_principal *principal = calloc(1, sizeof(*principal));
    if (principal == NULL) return NULL;
    atomic_store(&principal->references, 1);
    memcpy(principal->entry.name, name, strlen(name) + 1);
    principal->entry.kind = kind;
    principal->entry.roles = roles;
    return principal;
}

/* Adds the principals. False: out of memory; the set owns those already made. */
static bool fill(struct access_set *set, size_t count) {
    set->principals = calloc(count + 1, sizeof(*set->principals));
    set->owner = make("owner", KIND_OWNER, ROLES_ALL);
    set->broker = make(ACCESS_BROKER_NAME, KIND_BROKER, ROLES_ALL);
    if (set->principals == NULL || set->owner == NULL || set->broker == NULL) return false;
    for (; set->count < count; set->count++) {
        set->principals[set->count] = make("", KIND_TOKEN, ROLES_NONE);
        if (set->principals[set->count] == NULL) return false;
    }
    return true;
}

struct access_set *access_set_new(struct access_entry *entries, size_t count) {
    struct access_set *set = calloc(1, sizeof(*set));
    if (set == NULL) return NULL;
    bool is_whole = fill(set, count);
    for (size_t i = 0; is_whole && i < count; i++) {
        set->principals[i]->entry = entries[i];
        if (entries[i].kind == KIND_LOOPBACK) set->loopback = access_hold(set->principals[i]);
    }
    if (is_whole && set->loopback == NULL) set->loopback = make("loopback", KIND_LOOPBACK, ROLES_LOCAL);
    if (!is_whole || set->loopback == NULL) {
        /* After a failure the caller keeps the prefixes, so they must not be freed here. */
        for (size_t i = 0; i < set->count; i++) set->principals[i]->entry.prefixes = NULL;
        access_set_free(set);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) entries[i].prefixes = NULL;
    qsort(set->principals, count, sizeof(struct access_principal *), compare_names);
    return set;
}

void access_set_free(struct access_set *set) {
    if (set == NULL) return;
    for (size_t i = 0; i < set->count; i++) access_release(set->principals[i]);
    access_release(set->owner);
    access_release(set->broker);
    access_release(set->loopback);
    free(set->principals);
    free(set);
}

/* Returns the place of the first row with this name; set->count: none. */
static size_t place_of(const struct access_set *set, const char *name) {
    size_t low = 0, high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(set->principals[middle]->entry.name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && strcmp(set->principals[low]->entry.name, name) == 0 ? low : set->count;
}

static bool has_name_at(const struct access_set *set, size_t at, const char *name) {
    return at < set->count && strcmp(set->principals[at]->entry.name, name) == 0;
}

/* If both principals have identical rows, frees `*own`, replaces it by a new reference to `former`, and returns true.
 * Otherwise returns false. */
static bool follow(struct access_principal **own, struct access_principal *former) {
    if (!access_is_same(&(*own)->entry, &former->entry)) return false;
    access_release(*own);
    *own = access_hold(former);
    return true;
}

void access_set_follow(struct access_set *set, const struct access_set *former) {
    for (size_t i = 0; i < set->count; i++) {
        const char *name = set->principals[i]->entry.name;
        size_t at = place_of(former, name);
        /* `name` points into set->principals[i], which follow() may free. The loop ends when follow() returns true, so
         * a freed `name` is never read. */
        while (has_name_at(former, at, name) && !follow(&set->principals[i], former->principals[at])) at++;
    }
    follow(&set->owner, former->owner);
    follow(&set->broker, former->broker);
    follow(&set->loopback, former->loopback);
}

bool access_set_has(const struct access_set *set, const struct access_principal *principal) {
    if (principal == set->owner || principal == set->broker || principal == set->loopback) return true;
    const char *name = principal->entry.name;
    size_t at = place_of(set, name);
    while (has_name_at(set, at, name) && set->principals[at] != principal) at++;
    return has_name_at(set, at, name);
}

const struct access_principal *access_find(const struct access_set *set, const char *name) {
    size_t at = place_of(set, name);
    return at < set->count ? set->principals[at] : NULL;
}

struct access_principal *access_hold(struct access_principal *principal) {
    atomic_fetch_add(&principal->references, 1);
    return principal;
}

void access_release(struct access_principal *principal) {
    if (principal == NULL || atomic_fetch_sub(&principal->references, 1) != 1) return;
    free(principal->entry.prefixes);
    free(principal);
}

static size_t prefixes_size(const struct access_entry *entry) {
    const char *at = entry->prefixes;
    for (size_t i = 0; i < entry->prefix_count; i++) at += strlen(at) + 1;
    return (size_t)(at - entry->prefixes);
}

bool access_is_same(const struct access_entry *a, const struct access_entry *b) {
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind || a->roles != b->roles) return false;
    if (a->expires_s != b->expires_s || a->prefix_count != b->prefix_count) return false;
    if (memcmp(a->hash, b->hash, sizeof(a->hash)) != 0 || memcmp(a->limits, b->limits, sizeof(a->limits)) != 0)
        return false;
    if (a->prefix_count == 0) return true;
    size_t size = prefixes_size(a);
    return size == prefixes_size(b) && memcmp(a->prefixes, b->prefixes, size) == 0;
}

/* ---- which principal is a client */

bool access_is_owner(uint32_t uid, uint32_t broker_uid) {
    return uid == 0 || (uid == broker_uid && uid != OVERFLOW_UID);
}

static struct access_principal *find_token(const struct access_set *set, const struct access_shown *shown) {
    struct access_principal *found = NULL;
    uint8_t hash[ACCESS_HASH_SIZE];
    if (!access_token_hash(shown->token, shown->token_size, hash)) return NULL;
    for (size_t i = 0; i < set->count; i++) {
        struct access_principal *principal = set->principals[i];
        bool is_equal = sodium_memcmp(hash, principal->entry.hash, sizeof(hash)) == 0;
        if (principal->entry.kind == KIND_TOKEN && is_equal) found = principal;
    }
    return found;
}

static struct access_principal *find_certificate(const struct access_set *set, const char *name) {
    size_t at = place_of(set, name);
    if (at == set->count || set->principals[at]->entry.kind != KIND_CERTIFICATE) return NULL;
    return set->principals[at];
}

bool access_has_expired(const struct access_principal *principal, uint64_t now_s) {
    return principal->entry.expires_s != 0 && principal->entry.expires_s <= now_s;
}

static enum access_verdict let_in(struct access_principal *principal, uint64_t now_s, struct access_principal **out) {
    *out = access_hold(principal);
    return access_has_expired(principal, now_s) ? ACCESS_EXPIRED : ACCESS_IN;
}

enum access_verdict access_judge(const struct access_set *set, const struct access_shown *shown, uint64_t now_s,
                                 struct access_principal **out) {
    struct access_principal *found = NULL;
    *out = NULL;
    if (shown->token != NULL) {
        found = find_token(set, shown);
        return found != NULL ? let_in(found, now_s, out) : ACCESS_UNKNOWN;
    }
    if (shown->certificate[0] != '\0') found = find_certificate(set, shown->certificate);
    if (found != NULL) return let_in(found, now_s, out);
    if (!shown->is_local && !shown->is_owner) return ACCESS_NOTHING_SHOWN;
    return let_in(shown->is_owner ? set->owner : set->loopback, now_s, out);
}

uint64_t access_next_expiry(const struct access_set *set, uint64_t now_s) {
    uint64_t next_s = UINT64_MAX;
    for (size_t i = 0; i < set->count; i++) {
        uint64_t expires_s = set->principals[i]->entry.expires_s;
        if (expires_s > now_s && expires_s < next_s) next_s = expires_s;
    }
    return next_s;
}

/* ---- permissions */

bool access_is_confined(const struct access_principal *principal) {
    return principal->entry.prefix_count != 0;
}

bool access_covers(const struct access_principal *principal, const char *queue) {
    const struct access_entry *entry = &principal->entry;
    const char *prefix = entry->prefixes;
    if (entry->prefix_count == 0) return true;
    for (size_t i = 0; i < entry->prefix_count; i++, prefix += strlen(prefix) + 1)
        if (strncmp(queue, prefix, strlen(prefix)) == 0) return true;
    return false;
}

/* Returns advice for a denied client, as the end of the error message: which credential would permit the request. "":
 * no advice. */
static const char *remedy(const struct access_principal *principal) {
    return principal->entry.kind == KIND_LOOPBACK
               ? "; use a token that has this role, or connect to the broker's Unix socket (docs/ACCESS.md)"
               : "";
}

bool access_may(const struct access_principal *principal, const struct access_rule *rule, const char *queue,
                char sentence[ACCESS_SENTENCE_SIZE]) {
    const char *name = principal->entry.name;
    char roles[ROLES_TEXT_SIZE];
    if (rule->roles != ROLES_NONE && (principal->entry.roles & rule->roles) == 0) {
        snprintf(sentence, ACCESS_SENTENCE_SIZE, "%s: %s lacks the role %s%s%.*s%s%s", rule->name, name,
                 roles_format(rule->roles, " or ", roles), queue != NULL ? " (queue " : "",
                 queue != NULL ? QUEUE_NAME_SIZE_MAX : 0, queue != NULL ? queue : "", queue != NULL ? ")" : "",
                 remedy(principal));
        return false;
    }
    if (rule->reach == REACH_BROKER && principal->entry.kind != KIND_BROKER) {
        snprintf(sentence, ACCESS_SENTENCE_SIZE, "%s: only the broker itself may do this", rule->name);
        return false;
    }
    if (rule->reach == REACH_ALL && access_is_confined(principal)) {
        snprintf(sentence, ACCESS_SENTENCE_SIZE,
                 "%s: this request concerns all queues, but %s may use only the queues with its prefixes", rule->name,
                 name);
        return false;
    }
    if (queue == NULL) return true;
    bool is_kept = rule->reach != REACH_SHOWN && principal->entry.kind != KIND_BROKER && queue_is_reserved(queue);
    if (is_kept) {
        snprintf(sentence, ACCESS_SENTENCE_SIZE,
                 "%s: queue %.*s is reserved for the broker: clients may not use queues whose names begin with "
                 "\"" QUEUE_RESERVED_PREFIX "\" (docs/LIMITS.md)",
                 rule->name, QUEUE_NAME_SIZE_MAX, queue);
        return false;
    }
    if (access_covers(principal, queue)) return true;
    snprintf(sentence, ACCESS_SENTENCE_SIZE, "%s: queue %.*s is not one of the queues that %s may use", rule->name,
             QUEUE_NAME_SIZE_MAX, queue, name);
    return false;
}

const char *access_record_name(const struct access_principal *principal) {
    return principal->entry.kind == KIND_LOOPBACK ? "" : principal->entry.name;
}

/* Returns the time in ns that `count` operations take at the principal's maximum rate. */
static uint64_t rate_time_ns(const struct access_principal *principal, uint64_t count) {
    return count * 1000000000 / principal->entry.limits[LIMIT_rate];
}

/* Returns whether the rate allows `count` operations now; a burst of one second's operations is allowed. */
bool access_has_rate(const struct access_principal *principal, uint64_t count, uint64_t now_ns) {
    const uint64_t second_ns = 1000000000;
    if (principal->entry.limits[LIMIT_rate] == 0) return true;
    uint64_t from_ns = principal->usage.rate_ns > now_ns ? principal->usage.rate_ns : now_ns;
    /* A principal that was idle may take more than one second's operations at once, and then waits longer before the
     * next request. */
    return from_ns == now_ns || from_ns - now_ns + rate_time_ns(principal, count) <= second_ns;
}

void access_spend_rate(struct access_principal *principal, uint64_t count, uint64_t now_ns) {
    if (principal->entry.limits[LIMIT_rate] == 0) return;
    uint64_t from_ns = principal->usage.rate_ns > now_ns ? principal->usage.rate_ns : now_ns;
    principal->usage.rate_ns = from_ns + rate_time_ns(principal, count);
}

bool access_take_rate(struct access_principal *principal, uint64_t count, uint64_t now_ns) {
    if (!access_has_rate(principal, count, now_ns)) return false;
    access_spend_rate(principal, count, now_ns);
    return true;
}

void access_give_rate(struct access_principal *principal, uint64_t count) {
    if (principal->entry.limits[LIMIT_rate] == 0) return;
    uint64_t time_ns = rate_time_ns(principal, count);
    principal->usage.rate_ns -= time_ns < principal->usage.rate_ns ? time_ns : principal->usage.rate_ns;
}

bool access_is_claimed(const struct access_set *set, const struct access_principal *principal, const char *client) {
    char name[ACCESS_NAME_SIZE_MAX + 1];
    const char *end = strstr(client, " (");
    size_t size = end != NULL ? (size_t)(end - client) : strlen(client);
    if (size > ACCESS_NAME_SIZE_MAX) return false;
    memcpy(name, client, size);
    name[size] = '\0';
    if (strcmp(name, principal->entry.name) == 0) return false;
    return access_find(set, name) != NULL || strcmp(name, set->owner->entry.name) == 0 ||
           strcmp(name, set->broker->entry.name) == 0;
}

/* ---- failures */

/* Writes the address in `peer`: without the port; for a Unix socket without the process ("unix:uid=1000"). */
static void failures_address(const char *peer, char out[FAILURES_ADDRESS_SIZE]) {
    const char *end = strrchr(peer, strncmp(peer, "unix:", 5) == 0 ? ',' : ':');
    size_t size = end != NULL ? (size_t)(end - peer) : strlen(peer);
    if (size >= FAILURES_ADDRESS_SIZE) size = FAILURES_ADDRESS_SIZE - 1;
    memset(out, 0, FAILURES_ADDRESS_SIZE);
    memcpy(out, peer, size);
    if (size == 0) out[0] = '?';
}

/* Returns the address's entry, or the least recently used one for it. A free entry has the last use 0. */
static struct failures_of *failures_row_of(struct failures *failures, const char address[FAILURES_ADDRESS_SIZE]) {
    struct failures_of *oldest = &failures->of[0];
    for (size_t i = 0; i < FAILURES_ADDRESSES; i++) {
        struct failures_of *of = &failures->of[i];
        if (strcmp(of->address, address) == 0) return of;
        if (of->last_s < oldest->last_s) oldest = of;
    }
    *oldest = (struct failures_of){0};
    memcpy(oldest->address, address, FAILURES_ADDRESS_SIZE);
    return oldest;
}

bool failures_add(struct failures *failures, const char *peer, uint64_t now_s) {
    char address[FAILURES_ADDRESS_SIZE];
    failures_address(peer, address);
    struct failures_of *of = failures_row_of(failures, address);
    if (of->count == 0 || now_s - of->since_s >= FAILURES_WINDOW_S) {
        of->since_s = now_s;
        of->count = 0;
    }
    of->count++;
    of->last_s = now_s;
    failures->total++;
    failures->limited += of->count > FAILURES_MAX;
    return of->count > FAILURES_MAX;
}

/* ---- refusals */

static bool is_due(const struct refusal *row, uint64_t now_ms) {
    return row->told_ms == 0 || now_ms - row->told_ms >= REFUSALS_AGAIN_MS;
}

/* Returns the row of this kind of refusal. If no row has this kind, returns a row whose refusals are all recorded, for
 * reuse: the one that was recorded longest ago. If no such row exists either, returns the row `others`. */
static struct refusal *row_of(struct refusals *refusals, const struct refusal *kind) {
    struct refusal *free_row = NULL;
    for (size_t i = 0; i < REFUSALS_ROWS; i++) {
        struct refusal *row = &refusals->rows[i];
        bool is_it = row->why == kind->why && strcmp(row->address, kind->address) == 0 &&
                     strcmp(row->principal, kind->principal) == 0 &&
                     strcmp(row->what != NULL ? row->what : "", kind->what) == 0;
        if (is_it) return row;
        if (row->count == 0 && (free_row == NULL || row->told_ms < free_row->told_ms)) free_row = row;
    }
    if (free_row == NULL) return &refusals->others;
    *free_row = *kind;
    return free_row;
}

bool refusals_add(struct refusals *refusals, Tarry__AccessRefused__Why why, const char *peer, const char *principal,
                  const char *what, uint64_t count, uint64_t now_ms) {
    struct refusal kind = {.why = why, .what = what};
    assert(now_ms != 0 && count != 0);
    failures_address(peer, kind.address);
    snprintf(kind.principal, sizeof(kind.principal), "%s", principal);
    struct refusal *row = row_of(refusals, &kind);
    bool is_first = row->count == 0;
    if (is_first) row->first_ms = now_ms;
    row->last_ms = now_ms;
    row->count += count;
    return is_first && is_due(row, now_ms);
}

static bool take(struct refusals *refusals, struct refusal *row, uint64_t now_ms, bool all, struct refusal *out) {
    if (row->count == 0 || !(all || is_due(row, now_ms)) || refusals->told >= REFUSALS_TOLD_MAX) return false;
    refusals->told++;
    *out = *row;
    if (out->what == NULL) out->what = "";
    row->count = 0;
    row->told_ms = now_ms;
    return true;
}

size_t refusals_take(struct refusals *refusals, uint64_t now_ms, bool all, struct refusal out[REFUSALS_TOLD_MAX]) {
    size_t count = 0, begin = refusals->turn;
    if (now_ms - refusals->window_ms >= REFUSALS_AGAIN_MS) {
        refusals->window_ms = now_ms;
        refusals->told = 0;
    }
    /* The row `others` comes first, so that it is recorded even if all other rows have refusals. */
    count += take(refusals, &refusals->others, now_ms, all, &out[count]);
    for (size_t i = 0; i < REFUSALS_ROWS && refusals->told < REFUSALS_TOLD_MAX; i++) {
        size_t at = (begin + i) % REFUSALS_ROWS;
        if (!take(refusals, &refusals->rows[at], now_ms, all, &out[count])) continue;
        count++;
        refusals->turn = (at + 1) % REFUSALS_ROWS;
    }
    return count;
}
