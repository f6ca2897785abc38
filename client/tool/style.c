/* style.c: see style.h. */
#include "style.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_coloured(int fd) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (no_color != NULL && no_color[0] != 0) return false;
    return isatty(fd) == 1 && term != NULL && strcmp(term, "dumb") != 0;
}

const char *style_begin(int fd, enum style style) {
    static const char *const codes[] = {
        [STYLE_BOLD] = "\033[1m", [STYLE_GOOD] = "\033[32m", [STYLE_WARNING] = "\033[33m", [STYLE_BAD] = "\033[31m"};
    return is_coloured(fd) ? codes[style] : "";
}

const char *style_end(int fd) {
    return is_coloured(fd) ? "\033[0m" : "";
}
