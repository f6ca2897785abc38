/* index_alone.h: makes frames with a single record, for tests of an index without a log. */
#ifndef TARRY_TESTS_INDEX_ALONE_H
#define TARRY_TESTS_INDEX_ALONE_H

#include "index.h"
#include "row.h"

/* Absorbs a frame at `*position`, and moves the position to its end. Returns the result of index_absorb. */
static inline int absorb_record(struct index *index, uint64_t *position, Tarry__Record *record, uint64_t now_ms) {
    Tarry__FrameBody body = TARRY__FRAME_BODY__INIT;
    const struct frame_header header = {.type = FRAME_COMMIT,
                                        .position = *position,
                                        .body_size = 100,
                                        .steady_ns = now_ms * 1000000,
                                        .wall_ns = now_ms * 1000000};
    body.records = &record;
    body.n_records = 1;
    *position += frame_size(100, 0);
    return index_absorb(index, &header, &body);
}

/* Absorbs a frame that schedules a new task with this row, at the row's `scheduled_ms`. */
static inline int absorb_scheduled(struct index *index, uint64_t *position, const struct row *row) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__TaskPut put = TARRY__TASK_PUT__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    row_to_task(row, &task);
    put.task = &task;
    put.cause = TARRY__CAUSE__CAUSE_SCHEDULED;
    put.fresh = true;
    record.fact_case = TARRY__RECORD__FACT_PUT;
    record.put = &put;
    return absorb_record(index, position, &record, row->scheduled_ms);
}

/* Absorbs a frame that records the end of the row's task. */
static inline int absorb_ended(struct index *index, uint64_t *position, const struct row *row, uint64_t now_ms) {
    Tarry__Record record = TARRY__RECORD__INIT;
    Tarry__TaskEnd task_end = TARRY__TASK_END__INIT;
    Tarry__Task task = TARRY__TASK__INIT;
    row_to_task(row, &task);
    task_end.task = &task;
    task_end.cause = TARRY__CAUSE__CAUSE_CANCELLED;
    record.fact_case = TARRY__RECORD__FACT_END;
    record.end = &task_end;
    return absorb_record(index, position, &record, now_ms);
}

#endif
