/* etcd_words.h: encodes requests to etcd's JSON gateway (/v3/…), and decodes its answers.
 *
 * Answers are not trusted: each function accepts exactly what etcd 3.4 and later write for the request, and explains
 * anything else in a sentence. In JSON a 64-bit number is a string, bytes are base64, and a value of 0, empty or false
 * is omitted. So a refusal is a missing field, and is believed only with the entries that prove it.
 *
 * Thread-safety: pure functions. The caller frees returned texts; NULL: out of memory. */
#ifndef TARRY_COORDINATOR_ETCD_WORDS_H
#define TARRY_COORDINATOR_ETCD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator.h"

#define ETCD_KEY_SIZE (COORDINATOR_URL_SIZE_MAX + COORDINATOR_NAME_SIZE_MAX + 2)
#define ETCD_ANSWER_SIZE_MAX 65536 /* bytes; the largest answer has COORDINATOR_CHANGES_MAX values in base64 */
#define ETCD_TOKEN_SIZE_MAX 4096   /* bytes */

/* An entry as stored in etcd. */
struct etcd_entry {
    uint64_t version; /* 0: no entry; else as in calls: 1, and 1 more each change */
    uint64_t birth;   /* revision of its creation */
    uint64_t mark;    /* revision of its last change */
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
};

/* The change of one key that a call requests. */
struct etcd_change {
    const char *key;
    const struct coordinator_change *change;
    const struct etcd_entry *known; /* the entry as seen at the expected version; NULL: not seen */
};

char *etcd_ask_range(const char *key);
/* Counts the keys that begin with `prefix`. Only a member with a majority can answer this request. */
char *etcd_ask_count(const char *prefix);
/* Compares the version, and, if seen, revision and value. If all match, it puts the values. In either case it reads all
 * keys. */
char *etcd_ask_change(const struct etcd_change *changes, size_t count);
char *etcd_ask_watch(const char *prefix);
char *etcd_ask_token(const char *user, size_t user_size, const char *password);

/* Requests for a lease of `seconds`; a put with a lease; and the keepalive or revocation of a lease. */
char *etcd_ask_lease(uint64_t seconds);
char *etcd_ask_put(const char *key, const char *text, uint64_t lease);
char *etcd_ask_with_lease(uint64_t lease);

/* Each etcd_take function returns 0, or 1 with a sentence (without "coordinator: "). `out_cluster` is the id of the
 * answering cluster. */
int etcd_take_count(const char *text, size_t size, uint64_t *out_cluster, char message[COORDINATOR_MESSAGE_SIZE]);
int etcd_take_range(const char *text, size_t size, const char *key, uint64_t *out_cluster, struct etcd_entry *out,
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* `out`: the entries after the request, changed or not. It is an error if a change succeeded but the entry differs from
 * it, or if a change failed without a visible reason. Then the outcome is unknown. */
int etcd_take_change(const char *text, size_t size, const struct etcd_change *changes, size_t count,
                     uint64_t *out_cluster, bool *out_happened, struct etcd_entry out[COORDINATOR_CHANGES_MAX],
                     char message[COORDINATOR_MESSAGE_SIZE]);
int etcd_take_token(const char *text, size_t size, char out[ETCD_TOKEN_SIZE_MAX + 1],
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Decodes the answer to a grant or a keepalive; no seconds: the lease has expired. */
int etcd_take_lease(const char *text, size_t size, uint64_t *out_lease, uint64_t *out_seconds,
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Returns whether this line of a watch reports its end. */
bool etcd_is_watch_over(const char *line, size_t size);

/* Reasons of etcd's refusals. */
enum etcd_refusal {
    ETCD_OTHER = 1,  /* the change may have been done: a timeout, a change of leader */
    ETCD_TOKEN_OLD,  /* not carried out: another token is needed */
    ETCD_NO_TOKEN,   /* not carried out: etcd requires a user */
    ETCD_FORBIDDEN,  /* the user lacks the permission */
    ETCD_WRONG_USER, /* wrong user or password */
    ETCD_NO_USERS,   /* authentication is not enabled */
    ETCD_NO_ROOM,    /* the quota is used up */
};
/* Decodes the error in an answer whose status is not 200; `out` gets its text, printable. */
enum etcd_refusal etcd_take_refusal(long status, const char *text, size_t size, char out[COORDINATOR_MESSAGE_SIZE]);

#endif
