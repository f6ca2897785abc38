/* tarry_once.h: finding the outcome of a commit whose reply was lost, and repeating a commit after a restart
 * (ONCE-1). Part of tarry.h, which includes it and has the rules on units, errors and threads.
 *
 * The broker remembers the reply to a commit under the commit's producer and sequence numbers, also after its own
 * crashes and failovers. It deletes the replies of a producer after 24 hours without a commit of that producer, or when
 * 16,384 other producers have sent commits since. After an unknown outcome, the library uses a new producer for further
 * commits, so that the broker keeps the replies of the old one.
 *
 * After TARRY_E_TIMEOUT, TARRY_E_CLOSED or TARRY_FAILED, in the same process:
 *
 *     #include <stdio.h>
 *     #include <tarry.h>
 *
 *     int place_order(tarry_client *client, const struct tarry_schedule_options *order) {
 *         struct tarry_result result, answer;
 *         int code = tarry_schedule(client, order, &result);
 *         if (code != TARRY_E_TIMEOUT) return code;
 *         code = tarry_ask(client, &result, NULL, &answer);
 *         if (code == TARRY_E_ABANDONED) printf("it never arrived: schedule it again\n");
 *         if (code == TARRY_OK) printf("it is task %llu\n", (unsigned long long)answer.id);
 *         return code;
 *     }
 *
 * After a crash of the program itself: give the commit a name (tarry_commit_prepare), store the name durably, for
 * example in a database transaction, then run the commit. After a restart the program builds the same commit again
 * and repeats it under the stored name (tarry_commit_resume). The commit then takes effect once, whatever had
 * happened. Or the program asks for the outcome only (tarry_commit_ask). */
#ifndef TARRY_ONCE_H
#define TARRY_ONCE_H

#ifndef TARRY_H
#error "include tarry.h before this header"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Name of a commit: a plain value. It is valid in every process, for as long as the broker remembers the commit.
 * This struct never changes. */
struct tarry_commit_id {
    uint64_t producer;
    uint64_t sequence;
    uint8_t cluster[16]; /* cluster of the producer; all zero: not known, and not compared */
};

/* Writes the name to `text` as "cluster-producer-sequence", with the cluster in hexadecimal. `text` takes at most
 * TARRY_COMMIT_ID_SIZE bytes, with the final 0. Returns `text`. */
#define TARRY_COMMIT_ID_SIZE 80
TARRY_API char *tarry_commit_id_format(const struct tarry_commit_id *id, char text[TARRY_COMMIT_ID_SIZE]);
/* Parses the text that tarry_commit_id_format writes. TARRY_INVALID: `text` is anything else. */
TARRY_API TARRY_MUST_USE int tarry_commit_id_parse(const char *text, struct tarry_commit_id *out_id);

/* Gives the commit a name before it is run or submitted. Operations may be added before or after. The call may request
 * a producer number from the broker, so it blocks: TARRY_E_TIMEOUT, TARRY_E_NO_BROKER, TARRY_E_CALLBACK.
 * TARRY_E_ARGUMENT: the commit has a name already. The name is valid for one run or submission; tarry_commit_clear
 * discards the name. `out_message` may be NULL. */
TARRY_API TARRY_MUST_USE int tarry_commit_prepare(tarry_commit *commit, const struct tarry_call *call,
                                                  struct tarry_commit_id *out_id, char out_message[TARRY_MESSAGE_SIZE]);

/* Gives the commit a name under which this or another process may have sent it before. The commit must have the same
 * operations as the earlier one. If the earlier commit took effect, the broker does not execute the commit again, and
 * its results are those of the first execution. TARRY_E_PROTOCOL: the number of results differs from the number of
 * operations. Does not block.
 *
 * Running the commit may return TARRY_FORGOTTEN: the broker did not execute it now, and whether it took effect earlier
 * is unknown. Running it may return TARRY_E_ABANDONED: a tarry_commit_ask for this name reached the broker first, so
 * the broker refuses the commit. */
TARRY_API TARRY_MUST_USE int tarry_commit_resume(tarry_commit *commit, const struct tarry_commit_id *id);

/* Writes the name of the commit that carried the operation of `result`. TARRY_E_ARGUMENT: the operation was never
 * sent. */
TARRY_API TARRY_MUST_USE int tarry_result_commit_id(tarry_client *client, const struct tarry_result *result,
                                                    struct tarry_commit_id *out_id);

/* Asks the broker for the outcome of the commit with the name `id`. If the commit took effect or was refused, returns
 * the code and the results that tarry_commit_run returned, or would have returned, for it. `commit` stores the results
 * until its next run, ask, clear or free; it may be any commit of this client that has no operations. Other codes:
 *
 *   TARRY_E_ABANDONED  the commit never arrived; the broker will refuse it from now on; nothing was done
 *   TARRY_FORGOTTEN    the broker does not remember it: whether it took effect is unknown
 *   TARRY_INVALID      the broker is older than 0.1 and cannot answer this request
 *   TARRY_E_TIMEOUT, TARRY_E_NO_BROKER, TARRY_NOT_PRIMARY …  no answer: ask again. A broker of another cluster
 *                                                            counts as not the primary.
 *
 * Blocks. Any thread, but no callbacks (TARRY_E_CALLBACK). */
TARRY_API TARRY_MUST_USE int tarry_commit_ask(tarry_commit *commit, const struct tarry_commit_id *id,
                                              const struct tarry_call *call, const struct tarry_result **out_results,
                                              size_t *out_count);

/* Asks like tarry_commit_ask for the outcome of one operation. `unknown` is the result that had an unknown outcome.
 * Returns out_result->code. `out_result` may be NULL or equal to `unknown`. */
TARRY_API TARRY_MUST_USE int tarry_ask(tarry_client *client, const struct tarry_result *unknown,
                                       const struct tarry_call *call, struct tarry_result *out_result);

#ifdef __cplusplus
}
#endif

#endif
