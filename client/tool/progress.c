/* progress.c: see progress.h. */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "table.h"
#include "text.h"
#include "tool.h"
#include "units.h"

#define BAR_WIDTH_MAX 30u
#define BAR_WIDTH_MIN 4u /* minimum width of the bar in characters; a narrower bar is not drawn */
#define REDRAW_MS 100u

void progress_start(struct progress *progress, const char *what) {
    *progress = (struct progress){.what = what, .shown = isatty(STDERR_FILENO) == 1, .started_ms = steady_ms()};
}

void progress_show(struct progress *progress, uint64_t done, uint64_t total, uint64_t count) {
    if (!progress->shown) return;
    uint64_t now_ms = steady_ms();
    if (progress->drawn && now_ms - progress->drawn_ms < REDRAW_MS) return;
    struct text words = {0}, line = {0};
    uint64_t took_ms = now_ms - progress->started_ms;
    if (total > 0)
        text_printf(&words, "%3u%%  ", (unsigned)(done >= total ? 100 : 100.0 * (double)done / (double)total));
    text_printf(&words, "%llu %s", (unsigned long long)count, progress->what);
    if (took_ms >= 500) {
        char left[UNITS_TEXT_SIZE];
        text_printf(&words, "  %.0f/s", (double)count * 1000 / (double)took_ms);
        if (done > 0 && total > done) {
            uint64_t left_s = (uint64_t)((double)took_ms / 1000 * (double)(total - done) / (double)done);
            text_printf(&words, "  %s left", left_s == 0 ? "1s" : duration_format(left_s * 1000, left));
        }
    }
    /* A wrapped line would scroll instead of being overwritten, so the last column stays free. */
    size_t columns = columns_of(STDERR_FILENO) - 1, frame = strlen("|| ");
    size_t bar = columns > words.size + frame ? columns - words.size - frame : 0;
    if (total > 0 && bar >= BAR_WIDTH_MIN) {
        text_add_str(&line, "▕");
        bar_add(&line, (double)done, (double)total, bar < BAR_WIDTH_MAX ? bar : BAR_WIDTH_MAX);
        text_add_str(&line, "▏ ");
    }
    text_add(&line, text_str(&words), words.size < columns ? words.size : columns); /* ASCII only */
    text_deinit(&words);
    fprintf(stderr, "\r%s\033[K", text_str(&line));
    fflush(stderr);
    text_deinit(&line);
    progress->drawn = true;
    progress->drawn_ms = now_ms;
}

void progress_end(struct progress *progress) {
    if (progress->drawn) fputs("\r\033[K", stderr);
    progress->drawn = false;
}
