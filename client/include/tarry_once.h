/* tarry_once.h: what became of a commit whose answer never came, and going on with it after a restart (ONCE-1). A part
 * of tarry.h, which includes it and has the rules on units, errors and threads.
 *
 * The broker remembers the answer of a commit under its producer's number and its sequence, across its own crashes and
 * failovers, until 24 hours have passed without a commit of this producer, or 16,384 younger producers have pushed it
 * out. The library leaves a producer alone once an outcome of its is unknown, so that its answers stay.
 *
 * After TARRY_E_TIMEOUT, TARRY_E_CLOSED and TARRY_FAILED, in the same process:
 *
 *     #include <stdio.h>
 *     #include <tarry.h>
 *
 *     int place_order(tarry_client *client, const struct tarry_schedule_options *order) {
 *         struct tarry_result result, answer;
 *         int code = tarry_schedule(client, order, &result);
 *         if (code != TARRY_E_TIMEOUT) return code;
 *         code = tarry_ask(client, &result, &answer);
 *         if (code == TARRY_E_ABANDONED) printf("it never arrived: schedule it again\n");
 *         if (code == TARRY_OK) printf("it is task %llu\n", (unsigned long long)answer.id);
 *         return code;
 *     }
 *
 * Across a crash of the own process: give the commit its name first, keep the name where it survives (in the
 * transaction of a database, say), then run it. A program that finds a name there after a restart builds the commit
 * anew and goes on with it (tarry_commit_resume), so that it takes effect once whatever had happened; or asks
 * (tarry_commit_ask). */
#ifndef TARRY_ONCE_H
#define TARRY_ONCE_H

#ifndef TARRY_H
#error "include tarry.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A commit's name. A plain value, good in every process and for as long as the broker remembers; never changes. */
struct tarry_commit_id {
    uint64_t producer;
    uint64_t sequence;
    uint8_t cluster[16]; /* whose producer it is; zeros: not known, and not compared */
};

/* "cluster-producer-sequence", the first in hexadecimal. `text` takes at most TARRY_COMMIT_ID_SIZE bytes, the final 0
 * included. Returns `text`. */
#define TARRY_COMMIT_ID_SIZE 80
TARRY_API char *tarry_commit_id_format(const struct tarry_commit_id *id, char text[TARRY_COMMIT_ID_SIZE]);
/* TARRY_INVALID unless `text` is exactly such a name. */
TARRY_API TARRY_MUST_USE int tarry_commit_id_parse(const char *text, struct tarry_commit_id *out_id);

/* Gives the commit a name, before it is run or submitted; its operations may be added before or after. Asks the broker
 * for a producer now and then, and so blocks: TARRY_E_TIMEOUT, TARRY_E_NO_BROKER, TARRY_E_CALLBACK. TARRY_E_ARGUMENT if
 * it has one already. The name is used up by the commit's next run or submission, or by tarry_commit_clear.
 * `out_message` may be NULL. */
TARRY_API TARRY_MUST_USE int tarry_commit_prepare(tarry_commit *commit, struct tarry_commit_id *out_id,
                                                  char out_message[TARRY_MESSAGE_SIZE]);

/* Gives the commit this name, under which it, or another process, may have been sent before. It must be the same
 * commit: one that has taken effect is not executed again, and its results are the first one's (TARRY_E_PROTOCOL if
 * there are not as many as this has operations). TARRY_FORGOTTEN from its run: whether it took effect is unknown, it is
 * not executed. TARRY_E_ABANDONED: it was asked for before it arrived. Does not block. */
TARRY_API TARRY_MUST_USE int tarry_commit_resume(tarry_commit *commit, const struct tarry_commit_id *id);

/* The name of the commit that carried the operation of this result; TARRY_E_ARGUMENT if it was never sent. */
TARRY_API TARRY_MUST_USE int tarry_result_commit_id(tarry_client *client, const struct tarry_result *result,
                                                    struct tarry_commit_id *out_id);

/* What became of the commit of this name? Returns what its tarry_commit_run returned or would have, with its results
 * (as there; owned by `commit`, which is any commit of this client's without operations, until its next run, question,
 * clear or free). Or:
 *
 *   TARRY_E_ABANDONED  it never arrived, and from now on never will: the question takes its place. Nothing was done.
 *   TARRY_FORGOTTEN    the broker does not remember: whether it took effect is unknown
 *   TARRY_INVALID      a broker that cannot be asked (before 0.1)
 *   TARRY_E_TIMEOUT, TARRY_E_NO_BROKER, TARRY_NOT_PRIMARY …  not answered: ask again. A broker of another cluster is
 * not the primary.
 *
 * Blocking; any thread, save callbacks (TARRY_E_CALLBACK). */
TARRY_API TARRY_MUST_USE int tarry_commit_ask(tarry_commit *commit, const struct tarry_commit_id *id,
                                              const struct tarry_result **out_results, size_t *out_count);

/* The same for one operation: what became of what `unknown` is the result of? Returns out_result->code. `out_result`
 * may be NULL, or `unknown` itself. */
TARRY_API TARRY_MUST_USE int tarry_ask(tarry_client *client, const struct tarry_result *unknown,
                                       struct tarry_result *out_result);

#ifdef __cplusplus
}
#endif

#endif
