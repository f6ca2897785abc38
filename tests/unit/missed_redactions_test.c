/* missed_redactions_test.c: a follower that begins with a snapshot skips a part of the log. It must get the redactions
 * that were recorded in this part, after those that were pending before (broker/shell/pair/missed_redactions.h). The
 * leader is a fake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "missed_redactions.h"
#include "pending_erasures.h"

#define PAGES 3

struct page {
    bool is_lost; /* true: the request gets no reply */
    Tarry__Code code;
    /* Field `frame` of each redaction in the reply; 0 ends the list. All redactions are in one frame, together with
     * another record. */
    uint64_t redactions[4];
    uint64_t next;
    bool end;
};

static char directory[] = "/tmp/missed-redactions-test-XXXXXX", path[128];
static struct page pages[PAGES];
static unsigned asked_count;
static uint64_t asked[64]; /* requested positions */

/* ---- the leader */

Tarry__Request blocking_rpc_request(Tarry__Request__BodyCase what) {
    Tarry__Request request = TARRY__REQUEST__INIT;
    request.body_case = what;
    return request;
}

bool blocking_rpc_pause(void) {
    return false;
}

static Tarry__Reply *reply_of(const struct page *page) {
    Tarry__Reply reply = TARRY__REPLY__INIT;
    Tarry__AuditReply audit = TARRY__AUDIT_REPLY__INIT;
    Tarry__AuditFrame frame = TARRY__AUDIT_FRAME__INIT, *frames[] = {&frame};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    Tarry__QueuePut queue = TARRY__QUEUE_PUT__INIT;
    Tarry__Redaction redactions[4];
    Tarry__Record all[5], *records[5];
    uint8_t packed[512], out[1024];
    for (size_t i = 0; i < 5; i++) {
        tarry__record__init(records[i] = &all[i]);
        if (i < 4) tarry__redaction__init(&redactions[i]);
    }
    all[0].fact_case = TARRY__RECORD__FACT_QUEUE;
    all[0].queue = &queue;
    body.records = records;
    for (body.n_records = 1; body.n_records < 5 && page->redactions[body.n_records - 1] != 0; body.n_records++) {
        all[body.n_records].fact_case = TARRY__RECORD__FACT_REDACTION;
        all[body.n_records].redaction = &redactions[body.n_records - 1];
        redactions[body.n_records - 1].frame = page->redactions[body.n_records - 1];
    }
    frame.body = (ProtobufCBinaryData){tarry__frame_body__pack(&body, packed), packed};
    audit.n_frames = 1;
    audit.frames = frames;
    audit.next = page->next;
    audit.end = page->end;
    reply.code = page->code;
    if (page->code == TARRY__CODE__OK) {
        reply.body_case = TARRY__REPLY__BODY_AUDIT;
        reply.audit = &audit;
    }
    return tarry__reply__unpack(NULL, tarry__reply__pack(&reply, out), out);
}

Tarry__Reply *blocking_rpc_ask(struct blocking_rpc *blocking_rpc, const Tarry__Request *request) {
    const struct page *page = &pages[asked_count < PAGES ? asked_count : PAGES - 1];
    assert_true(request->body_case == TARRY__REQUEST__BODY_AUDIT && request->audit->redactions);
    assert_true(asked_count < sizeof asked / sizeof asked[0]);
    asked[asked_count++] = request->audit->position;
    return page->is_lost ? NULL : reply_of(page);
}

/* ---- */

static int ask_from(uint64_t position) {
    int error, result;
    asked_count = 0;
    result = missed_redactions_ask(NULL, directory, position, &error);
    return result;
}

static void assert_kept(size_t count, const uint64_t *frames) {
    Tarry__FrameBody *body;
    assert_int_equal(pending_erasures_read(directory, &body), 0);
    assert_int_equal(body != NULL ? body->n_records : 0, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(body->records[i]->redaction->frame, frames[i]);
    if (body != NULL) tarry__frame_body__free_unpacked(body, NULL);
}

static int set_up(void **state) {
    strcpy(directory, "/tmp/missed-redactions-test-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/" UNERASED_NAME, directory);
    memset(pages, 0, sizeof pages);
    return 0;
}

static int tear_down(void **state) {
    unlink(path);
    return rmdir(directory);
}

static void redactions_of_all_pages_are_kept_behind_the_earlier_ones(void **state) {
    pages[0] = (struct page){.redactions = {11, 12}, .next = 500};
    pages[1] = (struct page){.code = TARRY__CODE__BUSY};
    pages[2] = (struct page){.redactions = {13}, .next = 900, .end = true};
    assert_int_equal(ask_from(100), 0);
    assert_int_equal(asked_count, 3);
    assert_true(asked[0] == 100 && asked[1] == 500 && asked[2] == 500);
    assert_kept(3, (const uint64_t[]){11, 12, 13});
    pages[0] = (struct page){.redactions = {14}, .end = true};
    assert_int_equal(ask_from(900), 0);
    assert_int_equal(asked_count, 1);
    assert_kept(4, (const uint64_t[]){11, 12, 13, 14});
    pages[0] = (struct page){.end = true};
    assert_int_equal(ask_from(950), 0);
    assert_kept(4, (const uint64_t[]){11, 12, 13, 14});
}

static void where_there_are_none_no_file_is_written(void **state) {
    pages[0] = (struct page){.end = true};
    assert_int_equal(ask_from(100), 0);
    assert_int_equal(access(path, F_OK), -1);
    pages[0] = (struct page){.code = TARRY__CODE__DENIED}; /* the leader's refusal is reported */
    assert_int_equal(ask_from(100), 0);
    assert_int_equal(access(path, F_OK), -1);
}

static void a_leader_that_is_gone_is_asked_again_and_given_up(void **state) {
    for (size_t i = 0; i < PAGES; i++) pages[i] = (struct page){.is_lost = true};
    assert_int_equal(ask_from(100), -1);
    assert_int_equal(asked_count, 20);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(redactions_of_all_pages_are_kept_behind_the_earlier_ones),
        TEST(where_there_are_none_no_file_is_written),
        TEST(a_leader_that_is_gone_is_asked_again_and_given_up),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
