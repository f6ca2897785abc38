/* job.c: see job.h. */
#include "job.h"

#include <time.h>

#include "json_out.h"
#include "progress.h"
#include "signals.h"

#define POLL_MIN_MS 5u
#define POLL_MAX_MS 250u

static void pause_ms(uint64_t ms) {
    struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

int job_follow(struct tool *tool, const char *queue, const struct tarry_result *started, const char *what,
               struct tarry_job_view *out_view) {
    struct progress progress;
    struct tarry_job_view view = {.running = true};
    const uint64_t job = started->job, count = started->count;
    char message[TARRY_MESSAGE_SIZE] = "";
    int code = TARRY_OK;
    signals_graceful();
    progress_start(&progress, what);
    for (uint64_t wait_ms = POLL_MIN_MS; !signals_ended(); wait_ms += wait_ms < POLL_MAX_MS ? wait_ms : 0) {
        code = tarry_job(tool->client, queue, job, NULL, &view, message);
        if (code != TARRY_OK || !view.running) break;
        uint64_t done = view.done + view.left;
        if (count > 0) progress_show(&progress, done < count ? done : count, count, view.done);
        pause_ms(wait_ms);
    }
    progress_end(&progress);
    if (code != TARRY_OK) return tool_failed(tool, code, message);
    if (view.running) {
        tool_say("interrupted after %llu; the broker continues by itself", (unsigned long long)view.done);
        return EXIT_REFUSED;
    }
    if (!view.known) tool_say("done; the number is unknown, because the broker restarted meanwhile");
    *out_view = view;
    return EXIT_FINE;
}

void job_json_count(struct text *out, const struct tarry_job_view *view) {
    if (view->known)
        out_number(out, "count", view->done);
    else
        out_null(out, "count");
}

void job_words_count(struct text *out, const struct tarry_job_view *view, const char *noun) {
    if (view->known) text_printf(out, ": %llu %s%s", (unsigned long long)view->done, noun, view->done == 1 ? "" : "s");
}
