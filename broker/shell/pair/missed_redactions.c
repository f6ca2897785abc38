/* missed_redactions.c: see missed_redactions.h. */
#include "missed_redactions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "logfmt.h"
#include "pending_erasures.h"
#include "tarry_limits.h"
#include "wire.h"

#define TRIES 20
#define NO_ANSWER 1 /* result when no answer came; differs from errnos and from storage's errors */

struct missed_redactions {
    struct blocking_rpc *blocking_rpc;
    Tarry__FrameBody *kept; /* redactions of an earlier snapshot that are not carried out yet; NULL: none */
    /* Redactions of an earlier snapshot, which `kept` owns, followed by the redactions of this snapshot. */
    Tarry__Record **records;
    size_t own; /* index of the first record of this snapshot */
    size_t count;
    size_t room;
};

static int add(struct missed_redactions *passed, Tarry__Record *record) {
    if (passed->count == passed->room) {
        size_t room = passed->room > 0 ? 2 * passed->room : 64;
        Tarry__Record **records = realloc(passed->records, room * sizeof(void *));
        if (records == NULL) return -ENOMEM;
        passed->records = records;
        passed->room = room;
    }
    passed->records[passed->count++] = record;
    return 0;
}

/* Collects the redactions that a frame's body contains. */
static int take_frame(struct missed_redactions *passed, const Tarry__AuditFrame *frame) {
    Tarry__FrameBody *body = tarry__frame_body__unpack(NULL, frame->body.len, frame->body.data);
    if (body == NULL) return -ENOMEM;
    size_t left = 0;
    int error = 0;
    for (size_t i = 0; i < body->n_records; i++) {
        bool is_ours = error == 0 && body->records[i]->fact_case == TARRY__RECORD__FACT_REDACTION;
        if (is_ours) error = add(passed, body->records[i]);
        if (!is_ours || error != 0) body->records[left++] = body->records[i];
    }
    body->n_records = left;
    tarry__frame_body__free_unpacked(body, NULL);
    return error;
}

/* Asks for one result page of the leader's history; NULL: no answer. */
static Tarry__Reply *ask(struct missed_redactions *passed, uint64_t position) {
    Tarry__Request request = blocking_rpc_request(TARRY__REQUEST__BODY_AUDIT);
    Tarry__Audit audit = TARRY__AUDIT__INIT;
    request.audit = &audit;
    audit.position = position;
    audit.redactions = true;
    for (int i = 0; i < TRIES; i++) {
        Tarry__Reply *reply = blocking_rpc_ask(passed->blocking_rpc, &request);
        bool is_right = reply != NULL && reply->code == TARRY__CODE__OK && reply->body_case == TARRY__REPLY__BODY_AUDIT;
        bool is_busy = reply == NULL || reply->code == TARRY__CODE__BUSY;
        if (is_right || (reply != NULL && !is_busy)) return reply;
        if (reply != NULL) tarry__reply__free_unpacked(reply, NULL);
        if (blocking_rpc_pause()) _exit(0);
    }
    return NULL;
}

static void say_unknown(uint64_t from, uint64_t to, const char *reason) {
    char quoted[LOGFMT_VALUE_SIZE];
    logfmt("redactions_unknown",
           "from=%" PRIu64 " to=%" PRIu64
           " reason=%s action=\"redacted contents may still be in the archive of this node: run tarry archive prune "
           "here, or repeat the tarry redact\"",
           from, to, logfmt_quote(reason, quoted));
}

static int take_page(struct missed_redactions *passed, const Tarry__Reply *reply, uint64_t *position, bool *out_more) {
    *out_more = false;
    if (reply->code != TARRY__CODE__OK) {
        say_unknown(*position, 0, reply->message[0] != '\0' ? reply->message : "the leader refuses the request");
        return 0;
    }
    const Tarry__AuditReply *page = reply->audit;
    int error = 0;
    if (page->gap_to != 0)
        say_unknown(*position, page->gap_to, "the leader's log and archive no longer have these records");
    for (size_t i = 0; i < page->n_frames && error == 0; i++) error = take_frame(passed, page->frames[i]);
    if (error != 0) return error;
    *position = page->next;
    *out_more = !page->end;
    return 0;
}

static int ask_all(struct missed_redactions *passed, uint64_t position) {
    bool has_more = true;
    int error = 0;
    while (has_more && error == 0) {
        Tarry__Reply *reply = ask(passed, position);
        if (reply == NULL) return NO_ANSWER;
        error = take_page(passed, reply, &position, &has_more);
        tarry__reply__free_unpacked(reply, NULL);
    }
    return error;
}

static int begin(struct missed_redactions *passed, const char *directory) {
    int error = pending_erasures_read(directory, &passed->kept);
    for (size_t i = 0; error == 0 && passed->kept != NULL && i < passed->kept->n_records; i++)
        error = add(passed, passed->kept->records[i]);
    passed->own = passed->count;
    return error;
}

static void end(struct missed_redactions *passed) {
    for (size_t i = passed->own; i < passed->count; i++) tarry__record__free_unpacked(passed->records[i], NULL);
    if (passed->kept != NULL) tarry__frame_body__free_unpacked(passed->kept, NULL);
    free(passed->records);
}

int missed_redactions_ask(struct blocking_rpc *blocking_rpc, const char *directory, uint64_t position, int *out_error) {
    struct missed_redactions passed = {.blocking_rpc = blocking_rpc};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    int error = begin(&passed, directory);
    if (error == 0) error = ask_all(&passed, position);
    body.records = passed.records;
    body.n_records = passed.count;
    bool is_new = passed.count > passed.own;
    if (error == 0 && is_new) error = pending_erasures_write(directory, &body);
    if (error == 0 && is_new) logfmt("redactions_passed_over", "tasks=%zu", passed.count - passed.own);
    end(&passed);
    *out_error = error;
    return error == NO_ANSWER ? -1 : error == 0 ? 0 : 1;
}
