/* etcd_words.h: writes requests for etcd's JSON gateway (/v3/…) and parses its answers.
 *
 * Answers are hostile input. Each function accepts exactly what etcd 3.4 and later write in answer to its request, and
 * otherwise returns an error message. In etcd's JSON a 64-bit number is a string, bytes are base64, and a member that
 * is 0, empty or false is left out. So an answer without `succeeded` means "refused", which is believed only if the
 * entries prove it.
 *
 * Thread-safety: pure functions. The caller frees returned strings; NULL: out of memory. */
#ifndef TARRY_COORDINATOR_ETCD_WORDS_H
#define TARRY_COORDINATOR_ETCD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator.h"

#define ETCD_KEY_SIZE (COORDINATOR_URL_SIZE_MAX + COORDINATOR_NAME_SIZE_MAX + 2)
#define ETCD_ANSWER_SIZE_MAX 65536 /* maximum size of an answer in bytes: COORDINATOR_CHANGES_MAX values in base64 */
#define ETCD_TOKEN_SIZE_MAX 4096   /* bytes */

/* An entry as stored in etcd. */
struct etcd_entry {
    /* Etcd's version of the entry: 1 after its creation, plus 1 per change; 0: the entry does not exist. Coordinator
     * calls use the same number. */
    uint64_t version;
    uint64_t birth; /* revision that created the entry */
    uint64_t mark;  /* revision of the last change of the entry */
    size_t size;
    char value[COORDINATOR_VALUE_SIZE_MAX + 1];
};

/* A change that a call requests for one key. */
struct etcd_change {
    const char *key;
    const struct coordinator_change *change;
    /* Last known state of the entry, if its version is the expected one; NULL: unknown. */
    const struct etcd_entry *known;
};

char *etcd_ask_range(const char *key);
/* Writes a request for the number of keys that begin with `prefix`; only a member with a majority can answer. */
char *etcd_ask_count(const char *prefix);
/* Writes a request that compares the version, and the revision and value if known; puts the value if they match; and
 * reads all keys in either case. */
char *etcd_ask_change(const struct etcd_change *changes, size_t count);
char *etcd_ask_watch(const char *prefix);
char *etcd_ask_token(const char *user, size_t user_size, const char *password);

/* Requests for leases: grant one of `seconds`, put a key with a lease, keep a lease alive or revoke it. */
char *etcd_ask_lease(uint64_t seconds);
char *etcd_ask_put(const char *key, const char *text, uint64_t lease);
char *etcd_ask_with_lease(uint64_t lease);

/* Parses an answer. All etcd_take_… functions return 0, or 1 with an error message (without "coordinator: ").
 * `out_cluster`: id of the answering cluster. */
int etcd_take_count(const char *text, size_t size, uint64_t *out_cluster, char message[COORDINATOR_MESSAGE_SIZE]);
int etcd_take_range(const char *text, size_t size, const char *key, uint64_t *out_cluster, struct etcd_entry *out,
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Parses the answer to a change. Sets `out` to the entries as they are after the request, changed or unchanged. Returns
 * an error if the answer contradicts itself, because the outcome is then unknown. Such an answer reports a change but
 * shows another value, or reports no change although the entries had the expected versions. */
int etcd_take_change(const char *text, size_t size, const struct etcd_change *changes, size_t count,
                     uint64_t *out_cluster, bool *out_happened, struct etcd_entry out[COORDINATOR_CHANGES_MAX],
                     char message[COORDINATOR_MESSAGE_SIZE]);
int etcd_take_token(const char *text, size_t size, char out[ETCD_TOKEN_SIZE_MAX + 1],
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Parses the answer to a grant or a keepalive; 0 seconds: the lease has expired. */
int etcd_take_lease(const char *text, size_t size, uint64_t *out_lease, uint64_t *out_seconds,
                    char message[COORDINATOR_MESSAGE_SIZE]);
/* Returns whether this line of a watch reports the watch's end. */
bool etcd_is_watch_over(const char *line, size_t size);

/* Reasons for which etcd refuses a request. */
enum etcd_refusal {
    ETCD_OTHER = 1,  /* the change may have happened; for example a timeout, or a change of etcd's leader */
    ETCD_TOKEN_OLD,  /* not executed, because the token has expired */
    ETCD_NO_TOKEN,   /* not executed, because etcd requires a user */
    ETCD_FORBIDDEN,  /* the user has no permission */
    ETCD_WRONG_USER, /* wrong user or password */
    ETCD_NO_USERS,   /* authentication is not enabled */
    ETCD_NO_ROOM,    /* etcd's storage quota is used up */
};
/* Parses the error in an answer whose status is not 200; `out` gets its printable text. */
enum etcd_refusal etcd_take_refusal(long status, const char *text, size_t size, char out[COORDINATOR_MESSAGE_SIZE]);

#endif
