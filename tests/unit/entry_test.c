/* entry_test.c: how `tarry audit` prints records that are difficult to describe correctly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../client/tool/offline/entry_words.h"
#include "json_map.h"
#include "tarry_limits.h"

/* TRUE-1: the record of an unsent delivery shows two sessions: the consumer that did not get the task, and the earlier
 * one that had it last. */
static void an_unsent_delivery_names_both_who_did_not_get_it_and_who_had_it(void **state) {
    (void)state;
    struct queue_map_item orders = {1, "orders"};
    const struct queue_map names = {&orders, 1, 1};
    Tarry__Task task = TARRY__TASK__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records[] = {&record};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    struct frame_header header = {.position = 4096, .epoch = 1};
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &put;
    body.records = records;
    body.n_records = 1;
    put.cause = TARRY__CAUSE__CAUSE_UNSENT;
    put.task = &task;
    put.before_session = 77;
    task.id = task.queue = task.deliveries = 1;
    task.session = 55;
    struct entry entry = {.header = &header, .body = &body, .record = &record, .queues = &names, .queue = "orders"};
    assert_int_equal(entry_session(&entry), 77);
    struct text words = {0}, json = {0};
    entry_words(&words, &entry, true);
    json_entry(&json, &entry);
    text_add_char(&words, 0);
    text_add_char(&json, 0);
    assert_non_null(strstr(words.data, "from session 77"));
    assert_non_null(strstr(words.data, "last held by session 55"));
    assert_non_null(strstr(json.data, "\"session\":\"55\""));
    assert_non_null(strstr(json.data, "\"before_session\":\"77\""));
    text_deinit(&words);
    text_deinit(&json);
}

/* The entry for a job's end says how many tasks the job could not handle, and leaves this out if there are none. */
static void a_job_says_what_it_has_left(void **state) {
    (void)state;
    const struct queue_map names = {0};
    Tarry__JobEnd end = TARRY__JOB_END__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records[] = {&record};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    struct frame_header header = {.position = 4096, .epoch = 1};
    record.fact_case = TARRY__RECORD__FACT_JOB_END;
    record.job_end = &end;
    body.records = records;
    body.n_records = 1;
    end.job = 7;
    end.done = 3;
    struct entry entry = {.header = &header, .body = &body, .record = &record, .queues = &names};
    for (end.left = 0; end.left < 3; end.left += 2) {
        struct text words = {0};
        entry_words(&words, &entry, true);
        text_add_char(&words, 0);
        assert_non_null(strstr(words.data, end.left > 0 ? "7, 3 tasks, 2 left" : "7, 3 tasks"));
        if (end.left == 0) assert_null(strstr(words.data, "left"));
        text_deinit(&words);
    }
}

/* A definition shows its name as text, if it is text, and its value as base64. */
static void a_definition_shows_name_and_value(void **state) {
    (void)state;
    const struct queue_map names = {0};
    Tarry__DefinitionPut put = TARRY__DEFINITION_PUT__INIT;
    Tarry__Record record = TARRY__RECORD__INIT, *records[] = {&record};
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    struct frame_header header = {.position = 4096, .epoch = 1};
    struct text words = {0}, json = {0};
    record.fact_case = TARRY__RECORD__FACT_DEFINITION;
    record.definition = &put;
    body.records = records;
    body.n_records = 1;
    put.space = (char *)"amqp";
    put.name = (ProtobufCBinaryData){.len = 6, .data = (uint8_t *)"e:logs"};
    put.value = (ProtobufCBinaryData){.len = 2, .data = (uint8_t *)"\x00\xff"};
    put.version = 4096;
    struct entry entry = {.header = &header, .body = &body, .record = &record, .queues = &names};
    entry_words(&words, &entry, true);
    text_add_char(&words, 0);
    assert_non_null(strstr(words.data, "defined"));
    assert_non_null(strstr(words.data, "amqp \"e:logs\", 2 bytes"));
    put.name = (ProtobufCBinaryData){.len = 2, .data = (uint8_t *)"\xff\x01"};
    json_entry(&json, &entry);
    text_add_char(&json, 0);
    assert_non_null(strstr(json.data, "\"name_base64\":\"/wE=\""));
    assert_non_null(strstr(json.data, "\"value_base64\":\"AP8=\""));
    text_deinit(&words);
    text_deinit(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unsent_delivery_names_both_who_did_not_get_it_and_who_had_it),
        cmocka_unit_test(a_definition_shows_name_and_value),
        cmocka_unit_test(a_job_says_what_it_has_left),
    };
    return cmocka_run_group_tests_name("entry", tests, NULL, NULL);
}
