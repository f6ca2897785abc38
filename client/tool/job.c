/* job.c: see job.h. How far a job is shows in the queue's counters, which grow by what it has ended. */
#include "job.h"

#include <time.h>

#include "progress.h"
#include "signals.h"

#define POLL_MIN_MS 5u
#define POLL_MAX_MS 250u

static uint64_t ended(const struct tarry_queue_stats *stats) {
    return stats->cancelled + stats->dropped;
}

static void pause_ms(uint64_t ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

int job_follow(struct tool *tool, const char *queue, uint64_t count, const char *what) {
    struct progress progress;
    uint64_t ended_at_first = 0, dead_at_first = 0;
    int status = EXIT_FINE;
    signals_graceful();
    progress_start(&progress, what);
    for (uint64_t wait_ms = POLL_MIN_MS, round = 0; !signals_ended(); round++) {
        struct tarry_stats_view *view = NULL;
        const char *message = NULL;
        int code = tarry_stats(tool->client, queue, &view, &message);
        if (code != TARRY_OK) {
            progress_end(&progress);
            status = tool_refused(tool, code, message);
            break;
        }
        bool running = view->count > 0 && view->queues[0].jobs > 0;
        if (round == 0 && view->count > 0) {
            ended_at_first = ended(&view->queues[0]);
            dead_at_first = view->queues[0].dead;
        }
        if (running && count > 0) {
            uint64_t done = ended(&view->queues[0]) - ended_at_first;
            if (done == 0 && dead_at_first > view->queues[0].dead) done = dead_at_first - view->queues[0].dead;
            progress_show(&progress, done < count ? done : count, count, done);
        }
        tarry_stats_free(view);
        if (!running) break;
        pause_ms(wait_ms);
        if (wait_ms < POLL_MAX_MS) wait_ms *= 2;
    }
    progress_end(&progress);
    return status;
}
