/* client_audit_test.c: tarry_audit_* with a fake broker that has a log and, if a test asks for it, sends wrong data
 * from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "fake_broker.h"
#include "frame.h"

#define FRAMES 20
#define PAGE 3
#define BODY_SIZE_MAX 64

enum lie {
    TRUTH,
    HEADER,     /* a bit of the header is wrong */
    HEADER_CUT, /* the header is truncated */
    BODY,       /* a bit of the body is wrong */
    BODY_CUT,
    CHAIN,     /* the chain of another log; all checksums are right */
    ORDER,     /* two frames are swapped */
    BACKWARDS, /* the reply says that the next page begins before this one */
    AHEAD,     /* the reply says that the next page begins after the durable end of the log */
    STUCK,     /* the reply has no frames, but says that more exist */
    QUEUE,     /* the number of a queue is impossible */
    NO_AUDIT,  /* the reply is not an AuditReply */
    LIES
};

struct record {
    uint8_t header[FRAME_HEADER_SIZE];
    uint8_t body[BODY_SIZE_MAX];
    size_t body_size;
    uint64_t position;
    uint64_t end;
};

/* The broker's log, and the requests about it. */
struct book {
    struct record frames[FRAMES];
    size_t count; /* number of durable frames */
    enum lie lie;
    uint64_t lie_at;   /* position of the page with wrong data */
    uint64_t gap_from; /* frames from this position to gap_to are missing */
    uint64_t gap_to;   /* end of the missing frames */
    const char *gap_problem;
    unsigned busy;  /* number of requests that are answered BUSY */
    unsigned lose;  /* number of requests whose connection is lost */
    bool is_silent; /* true: sends no reply while the log has no new frames */
    /* number of requests so far */
    unsigned asked;
    Tarry__Audit last;
    uint64_t last_task;
    char last_key[32];
    unsigned polls;
};

static void write_log(struct book *book) {
    uint8_t chain[FRAME_CHAIN_SIZE] = {0};
    uint64_t position = LOG_POSITION_FIRST;
    for (size_t i = 0; i < FRAMES; i++) {
        struct record *record = &book->frames[i];
        record->body_size = i % 5 == 4 ? 0 : 10 + i;
        for (size_t j = 0; j < record->body_size; j++) record->body[j] = (uint8_t)(i * 31 + j);
        struct frame_header header = {
            .type = record->body_size == 0 ? FRAME_SEAL : FRAME_COMMIT,
            .epoch = 1 + (uint32_t)i / 10,
            .body_size = (uint32_t)record->body_size,
            .blob_size = record->body_size == 0 ? 0 : (uint32_t)i * 7,
            .position = position,
            .synced_to = position,
            .steady_ns = 1000 + i,
            .wall_ns = 2000 + i,
            .body_sum = frame_sum(record->body, record->body_size),
        };
        frame_chain(chain, &header, record->body, chain);
        memcpy(header.chain, chain, sizeof(chain));
        frame_header_encode(&header, record->header);
        record->position = position;
        position = record->end = position + frame_size(header.body_size, header.blob_size);
    }
    book->count = FRAMES;
}

static uint64_t end_of(const struct book *book) {
    return book->frames[book->count - 1].end;
}

/* Makes a frame that is correct except for its chain. */
static void rechain(struct record *record) {
    struct frame_header header;
    assert_true(frame_header_decode(record->header, &header));
    header.chain[5] ^= 1;
    frame_header_encode(&header, record->header);
}

static void lie(const struct book *book, Tarry__AuditReply *page, struct record frames[PAGE]) {
    /* The kinds of false replies up to ORDER change the second frame of a page, so the page needs two frames. */
    if (book->lie <= ORDER && page->n_frames < 2) abort();
    switch (book->lie) {
    case HEADER:
        frames[1].header[30] ^= 4;
        break;
    case HEADER_CUT:
        page->frames[1]->header.len--;
        break;
    case BODY:
        frames[1].body[3] ^= 4;
        break;
    case BODY_CUT:
        page->frames[1]->body.len--;
        break;
    case CHAIN:
        rechain(&frames[1]);
        break;
    case ORDER: {
        Tarry__AuditFrame *first = page->frames[0];
        page->frames[0] = page->frames[1];
        page->frames[1] = first;
        break;
    }
    case BACKWARDS:
        page->next = page->next - 2000;
        break;
    case AHEAD:
        page->next = page->durable + 8;
        break;
    case STUCK:
        page->n_frames = 0;
        page->next = book->lie_at;
        page->end = false;
        break;
    case QUEUE:
        page->queues[0]->number = QUEUE_PLACES + 1;
        break;
    default:
        break;
    }
}

static void answer_page(const struct book *book, const Tarry__Audit *audit, struct fake_reply *reply) {
    Tarry__Reply answer = TARRY__REPLY__INIT;
    Tarry__AuditReply page = TARRY__AUDIT_REPLY__INIT;
    Tarry__AuditFrame frames[PAGE], *pointers[PAGE];
    Tarry__QueueName name = TARRY__QUEUE_NAME__INIT, *names = &name;
    struct record copies[PAGE];
    uint64_t position = audit->at_end ? end_of(book) : audit->position != 0 ? audit->position : LOG_POSITION_FIRST;
    page.next = position;
    page.frames = pointers;
    page.n_queues = 1;
    page.queues = &names;
    name.number = 7;
    name.name = (char *)"close-order";
    if (position >= book->gap_from && position < book->gap_to) {
        page.next = page.gap_to = book->gap_to;
        page.gap_problem = (char *)book->gap_problem;
    }
    for (size_t i = 0; i < book->count && page.n_frames < PAGE && page.gap_to == 0; i++) {
        if (book->frames[i].position < position) continue;
        if (book->frames[i].position == book->gap_from) break;
        struct record *copy = &copies[page.n_frames];
        Tarry__AuditFrame *frame = &frames[page.n_frames];
        *copy = book->frames[i];
        tarry__audit_frame__init(frame);
        frame->header = (ProtobufCBinaryData){FRAME_HEADER_SIZE, copy->header};
        frame->body = (ProtobufCBinaryData){copy->body_size, copy->body};
        pointers[page.n_frames++] = frame;
        page.next = copy->end;
    }
    page.durable = end_of(book);
    page.end = page.next >= page.durable;
    if (book->lie != TRUTH && position == book->lie_at) lie(book, &page, copies);
    bool is_other = book->lie == NO_AUDIT && position == book->lie_at;
    answer.body_case = is_other ? TARRY__REPLY__BODY__NOT_SET : TARRY__REPLY__BODY_AUDIT;
    answer.audit = is_other ? NULL : &page;
    fake_answer(reply, &answer);
}

static void on_audit(struct fake *fake, const Tarry__Request *request, struct fake_reply *reply) {
    struct book *book = fake->argument;
    const Tarry__Audit *audit = request->audit;
    book->asked++;
    book->last = *audit;
    book->last_task = audit->task != NULL ? audit->task->id : 0;
    book->last_key[0] = 0;
    if (audit->task != NULL)
        snprintf(book->last_key, sizeof(book->last_key), "%s/%.*s", audit->task->queue, (int)audit->task->key.len,
                 (const char *)audit->task->key.data);
    if (audit->wait_ms != 0) book->polls++;
    if (book->lose > 0) {
        book->lose--;
        reply->hangs_up = true;
        return;
    }
    if (book->busy > 0) {
        book->busy--;
        fake_refuse(reply, TARRY__CODE__BUSY);
        return;
    }
    if (audit->position % 8 != 0) {
        fake_refuse(reply, TARRY__CODE__INVALID);
        return;
    }
    if (book->is_silent && audit->wait_ms != 0 && audit->position >= end_of(book))
        reply->is_silent = true;
    else
        answer_page(book, audit, reply);
}

/* ---- setup */

struct stage {
    struct book book;
    struct fake *fake;
    tarry_client *client;
};

static int setup(void **state) {
    struct stage *stage = calloc(1, sizeof(*stage));
    write_log(&stage->book);
    stage->fake = fake_start(NULL, 0);
    stage->fake->on_audit = on_audit;
    stage->fake->argument = &stage->book;
    struct tarry_options options = {.urls = stage->fake->url, .timeout_ms = 20000};
    assert_int_equal(tarry_open(&options, &stage->client), TARRY_OK);
    *state = stage;
    return 0;
}

static int teardown(void **state) {
    struct stage *stage = *state;
    tarry_close(stage->client);
    fake_stop(stage->fake);
    free(stage);
    return 0;
}

static tarry_audit *open_audit(struct stage *stage, struct tarry_audit_options options) {
    tarry_audit *audit = NULL;
    assert_int_equal(tarry_audit_open(stage->client, &options, &audit), TARRY_OK);
    return audit;
}

/* Changes how the fake broker lies. Takes the broker's lock. */
static void change(struct stage *stage, enum lie what, uint64_t at) {
    pthread_mutex_lock(&stage->fake->lock);
    stage->book.lie = what;
    stage->book.lie_at = at;
    pthread_mutex_unlock(&stage->fake->lock);
}

static void publish(struct stage *stage, size_t count) {
    pthread_mutex_lock(&stage->fake->lock);
    stage->book.count = count;
    pthread_mutex_unlock(&stage->fake->lock);
}

static void is_frame(const struct tarry_frame *frame, const struct record *record) {
    assert_int_equal(frame->position, record->position);
    assert_int_equal(frame->end, record->end);
    assert_int_equal(frame->header_size, FRAME_HEADER_SIZE);
    assert_memory_equal(frame->header, record->header, FRAME_HEADER_SIZE);
    assert_int_equal(frame->body_size, record->body_size);
    if (record->body_size > 0) assert_memory_equal(frame->body, record->body, record->body_size);
    assert_memory_equal(frame->chain, record->header + 72, 32);
}

static void take(tarry_audit *audit, const struct book *book, size_t from, size_t to) {
    const struct tarry_frame *frame;
    for (size_t i = from; i < to; i++) {
        assert_int_equal(tarry_audit_next(audit, TARRY_FOREVER, &frame, NULL), TARRY_OK);
        is_frame(frame, &book->frames[i]);
        assert_int_equal(frame->steady_ns, 1000 + i);
        assert_int_equal(frame->wall_ns, 2000 + i);
        assert_int_equal(frame->epoch, 1 + i / 10);
    }
}

static int next(tarry_audit *audit, char out_message[TARRY_MESSAGE_SIZE]) {
    const struct tarry_frame *frame;
    return tarry_audit_next(audit, TARRY_FOREVER, &frame, out_message);
}

/* ---- frames that it returns */

static void the_whole_log_in_order_and_then_the_end(void **state) {
    struct stage *stage = *state;
    tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){0});
    struct tarry_audit_view view;
    assert_null(tarry_audit_queue(audit, 7));
    take(audit, &stage->book, 0, FRAMES);
    for (int i = 0; i < 3; i++) assert_int_equal(next(audit, NULL), TARRY_E_END);
    assert_string_equal(tarry_audit_queue(audit, 7), "close-order");
    assert_null(tarry_audit_queue(audit, 8));
    assert_null(tarry_audit_queue(audit, UINT32_MAX));
    tarry_audit_look(audit, &view);
    assert_int_equal(view.position, end_of(&stage->book));
    assert_int_equal(view.durable, end_of(&stage->book));
    assert_int_equal(view.queues, 1);
    assert_int_equal(stage->book.polls, 0);
    tarry_audit_close(audit);
}

static void it_ends_where_the_log_ended_when_it_was_asked(void **state) {
    struct stage *stage = *state;
    publish(stage, 4);
    tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){0});
    take(audit, &stage->book, 0, 1);
    publish(stage, FRAMES); /* new frames are added faster than the audit reads */
    take(audit, &stage->book, 1, 4);
    assert_int_equal(next(audit, NULL), TARRY_E_END);
    tarry_audit_close(audit);
}

static void what_is_asked_for_is_asked_of_the_broker(void **state) {
    struct stage *stage = *state;
    char key[] = "order-1 and more";
    struct tarry_ref task = {.queue = "orders", .key = key, .key_size = 7};
    struct tarry_audit_options options = {.position = stage->book.frames[5].position,
                                          .from_ms = 17,
                                          .to_ms = 18,
                                          .task = &task};
    tarry_audit *audit = open_audit(stage, options);
    memset(key, 'x', sizeof(key) - 1); /* the audit has copied the key */
    task.queue = "gone";
    take(audit, &stage->book, 5, 6);
    assert_int_equal(stage->book.last.position, stage->book.frames[5].position);
    assert_int_equal(stage->book.last.from_ms, 17);
    assert_int_equal(stage->book.last.to_ms, 18);
    assert_string_equal(stage->book.last_key, "orders/order-1");
    tarry_audit_close(audit);
    task = (struct tarry_ref){.id = 4711};
    audit = open_audit(stage, (struct tarry_audit_options){.task = &task, .at_end = true});
    assert_int_equal(next(audit, NULL), TARRY_E_END);
    assert_true(stage->book.last.at_end && stage->book.last_task == 4711);
    tarry_audit_close(audit);
}

static void arguments_that_make_no_sense(void **state) {
    struct stage *stage = *state;
    tarry_audit *audit = NULL;
    const struct tarry_frame *frame;
    char message[TARRY_MESSAGE_SIZE];
    struct tarry_ref nobody = {.queue = "q"};
    struct tarry_audit_options both = {.position = 4096, .at_end = true}, keyless = {.task = &nobody};
    assert_int_equal(tarry_audit_open(NULL, NULL, &audit), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_audit_open(stage->client, NULL, NULL), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_audit_open(stage->client, &both, &audit), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_audit_open(stage->client, &keyless, &audit), TARRY_E_ARGUMENT);
    const struct tarry_audit_options timed = {.call.timeout_ms = 1000}, newer = {.call.reserved = {1}};
    assert_int_equal(tarry_audit_open(stage->client, &timed, &audit), TARRY_E_ARGUMENT);
    assert_int_equal(tarry_audit_open(stage->client, &newer, &audit), TARRY_E_VERSION);
    assert_null(audit);
    assert_int_equal(tarry_audit_next(NULL, 0, &frame, message), TARRY_E_ARGUMENT);
    assert_true(strlen(message) > 5);
    tarry_audit_close(NULL);
    tarry_audit_wake(NULL);
    assert_null(tarry_audit_queue(NULL, 1));
    audit = open_audit(stage, (struct tarry_audit_options){.position = 4097});
    assert_int_equal(next(audit, message), TARRY_INVALID);
    assert_string_equal(message, "says the fake");
    tarry_audit_close(audit);
}

/* ---- lies that it detects */

static void a_lie_is_told_with_its_place_and_nothing_follows_it(void **state) {
    struct stage *stage = *state;
    for (enum lie what = HEADER; what < LIES; what++) {
        uint64_t at = stage->book.frames[2 * PAGE].position; /* position of the third page */
        change(stage, what, at);
        tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){0});
        take(audit, &stage->book, 0, 2 * PAGE);
        char message[TARRY_MESSAGE_SIZE];
        int rv;
        unsigned told = 0;
        while ((rv = next(audit, message)) == TARRY_OK) told++;
        assert_int_equal(rv, TARRY_E_PROTOCOL);
        assert_true(told <= 1);
        if (what != NO_AUDIT) assert_non_null(strstr(message, "log position "));
        assert_int_equal(next(audit, message), TARRY_E_PROTOCOL);
        tarry_audit_close(audit);
    }
    change(stage, TRUTH, 0);
}

static void a_chain_is_compared_across_pages_but_not_across_gaps(void **state) {
    struct stage *stage = *state;
    rechain(&stage->book
                 .frames[PAGE]); /* the frame is the first one of the second page; the frames around it are correct */
    tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){0});
    char message[TARRY_MESSAGE_SIZE];
    take(audit, &stage->book, 0, PAGE);
    assert_int_equal(next(audit, message), TARRY_E_PROTOCOL);
    assert_non_null(strstr(message, "chain"));
    tarry_audit_close(audit);
    audit = open_audit(stage, (struct tarry_audit_options){.position = stage->book.frames[PAGE].position});
    /* An audit that starts at this frame does not know the one before, so it cannot check this frame's chain. */
    take(audit, &stage->book, PAGE, PAGE + 1);
    tarry_audit_close(audit);
}

static void gaps_are_told_once_and_the_rest_follows(void **state) {
    struct stage *stage = *state;
    stage->book.gap_from = stage->book.frames[4].position;
    stage->book.gap_to = stage->book.frames[9].position;
    static const char *const problems[] = {"", "/archive/x.seg.zst is damaged"};
    for (size_t i = 0; i < 2; i++) {
        struct tarry_audit_view view;
        char message[TARRY_MESSAGE_SIZE];
        stage->book.gap_problem = problems[i];
        tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){0});
        take(audit, &stage->book, 0, 4);
        assert_int_equal(next(audit, message), TARRY_E_GAP);
        assert_non_null(strstr(message, i == 0 ? "no longer in the log or the archive" : problems[1]));
        take(audit, &stage->book, 9, FRAMES);
        assert_int_equal(next(audit, NULL), TARRY_E_END);
        tarry_audit_look(audit, &view);
        assert_int_equal(view.gaps, 1);
        assert_int_equal(view.gaps_damaged, i);
        tarry_audit_close(audit);
    }
}

/* ---- waiting */

static void a_busy_broker_and_a_lost_connection_lose_no_frame(void **state) {
    struct stage *stage = *state;
    stage->book.busy = 3;
    stage->book.lose = 2;
    tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){0});
    take(audit, &stage->book, 0, PAGE + 1);
    pthread_mutex_lock(&stage->fake->lock);
    stage->book.busy = 1;
    stage->book.lose = 1;
    pthread_mutex_unlock(&stage->fake->lock);
    take(audit, &stage->book, PAGE + 1, FRAMES);
    assert_int_equal(next(audit, NULL), TARRY_E_END);
    tarry_audit_close(audit);
}

static void following_waits_at_the_broker_and_tells_what_happens(void **state) {
    struct stage *stage = *state;
    const struct tarry_frame *frame;
    publish(stage, 2);
    tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){.follow = true});
    take(audit, &stage->book, 0, 2);
    uint64_t before = now_ms();
    assert_int_equal(tarry_audit_next(audit, 400, &frame, NULL), TARRY_E_NOTHING);
    assert_true(now_ms() - before >= 400);
    publish(stage, FRAMES);
    take(audit, &stage->book, 2, FRAMES);
    pthread_mutex_lock(&stage->fake->lock);
    assert_true(stage->book.polls >= 1);
    /* The audit did not loop, although the fake broker replies without waiting. */
    assert_true(stage->book.asked <= 20);
    assert_true(stage->book.last.wait_ms < RESEND_AFTER_MS);
    pthread_mutex_unlock(&stage->fake->lock);
    tarry_audit_close(audit);
}

static void *wake_later(void *argument) {
    usleep(50000);
    tarry_audit_wake(argument);
    return NULL;
}

static void a_wake_up_ends_the_wait_and_closing_waits_for_nothing(void **state) {
    struct stage *stage = *state;
    pthread_t thread;
    stage->book.is_silent = true;
    publish(stage, 2);
    tarry_audit *audit = open_audit(stage, (struct tarry_audit_options){.follow = true});
    take(audit, &stage->book, 0, 2);
    uint64_t before = now_ms();
    assert_int_equal(pthread_create(&thread, NULL, wake_later, audit), 0);
    assert_int_equal(next(audit, NULL), TARRY_E_WOKEN);
    pthread_join(thread, NULL);
    tarry_audit_wake(audit); /* no call waits now, so the wake-up ends the next call */
    assert_int_equal(next(audit, NULL), TARRY_E_WOKEN);
    tarry_audit_close(audit);
    assert_true(now_ms() - before < RESEND_AFTER_MS);
}

static void audits_that_wait_leave_room_for_other_calls(void **state) {
    struct stage *stage = *state;
    tarry_audit *audits[CALL_SLOTS + 2];
    const struct tarry_frame *frame;
    stage->book.is_silent = true;
    for (size_t i = 0; i < CALL_SLOTS + 2; i++) {
        audits[i] = open_audit(stage, (struct tarry_audit_options){.follow = true, .at_end = true});
        assert_int_equal(tarry_audit_next(audits[i], 300, &frame, NULL), TARRY_E_NOTHING);
    }
    assert_int_equal(stage->client->polls, CALL_SLOTS / 2);
    assert_int_equal(tarry_ping(stage->client, NULL), TARRY_OK);
    for (size_t i = 0; i < CALL_SLOTS + 2; i++) tarry_audit_close(audits[i]);
}

static void nobody_there_is_told_and_the_call_may_be_repeated(void **state) {
    struct stage *stage = *state;
    struct tarry_options options = {.urls = stage->fake->url, .timeout_ms = 1000};
    tarry_client *hasty;
    const struct tarry_frame *frame;
    stage->book.lose = 1000000;
    assert_int_equal(tarry_open(&options, &hasty), TARRY_OK);
    tarry_audit *audit = NULL;
    assert_int_equal(tarry_audit_open(hasty, NULL, &audit), TARRY_OK);
    int rv = tarry_audit_next(audit, TARRY_FOREVER, &frame, NULL);
    assert_true(rv == TARRY_E_TIMEOUT || rv == TARRY_E_NO_BROKER);
    pthread_mutex_lock(&stage->fake->lock);
    stage->book.lose = 0;
    pthread_mutex_unlock(&stage->fake->lock);
    while ((rv = tarry_audit_next(audit, TARRY_FOREVER, &frame, NULL)) == TARRY_E_TIMEOUT || rv == TARRY_E_NO_BROKER) {
    }
    assert_int_equal(rv, TARRY_OK);
    is_frame(frame, &stage->book.frames[0]);
    take(audit, &stage->book, 1, FRAMES);
    tarry_audit_close(audit);
    tarry_close(hasty);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_whole_log_in_order_and_then_the_end),
        TEST(it_ends_where_the_log_ended_when_it_was_asked),
        TEST(what_is_asked_for_is_asked_of_the_broker),
        TEST(arguments_that_make_no_sense),
        TEST(a_lie_is_told_with_its_place_and_nothing_follows_it),
        TEST(a_chain_is_compared_across_pages_but_not_across_gaps),
        TEST(gaps_are_told_once_and_the_rest_follows),
        TEST(a_busy_broker_and_a_lost_connection_lose_no_frame),
        TEST(following_waits_at_the_broker_and_tells_what_happens),
        TEST(a_wake_up_ends_the_wait_and_closing_waits_for_nothing),
        TEST(audits_that_wait_leave_room_for_other_calls),
        TEST(nobody_there_is_told_and_the_call_may_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
