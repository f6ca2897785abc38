/* rule_driver.c: answers recur_judges_test.py, which compares these answers with croniter and dateutil.
 *
 * One question a line, fields separated by tabs:
 *   cron|rrule <expression> <zone> <from, s> <after, s> <count> <gap: next|skip> <fold: first|both|default> <days:
 * -|and|or> One answer a line: the next occurrences as Unix seconds, separated by spaces; or "error <sentence>". */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rule.h"

enum { KIND, TEXT, ZONE, FROM, AFTER, COUNT, GAP, FOLD, DAYS, FIELDS };

static void answer(char *fields[FIELDS]) {
    const bool is_cron = strcmp(fields[KIND], "cron") == 0;
    struct rule_spec spec = {
        .cron = is_cron ? fields[TEXT] : "",
        .rrule = is_cron ? "" : fields[TEXT],
        .zone = fields[ZONE],
        .from_ms = strtoull(fields[FROM], NULL, 10) * 1000,
        .skip_gap = strcmp(fields[GAP], "skip") == 0,
        .fold = strcmp(fields[FOLD], "both") == 0    ? RULE_FOLD_BOTH
                : strcmp(fields[FOLD], "first") == 0 ? RULE_FOLD_FIRST
                                                     : RULE_FOLD_DEFAULT,
        .days = strcmp(fields[DAYS], "and") == 0  ? RULE_DAYS_AND
                : strcmp(fields[DAYS], "or") == 0 ? RULE_DAYS_OR
                                                  : RULE_DAYS_NOT_SAID,
    };
    struct rule rule;
    struct rule_problem problem;
    if (!rule_make(&spec, &rule, &problem)) {
        printf("error %s\n", problem.text);
        return;
    }
    uint64_t at_ms = strtoull(fields[AFTER], NULL, 10) * 1000;
    for (uint64_t left = strtoull(fields[COUNT], NULL, 10); left > 0; left--) {
        uint32_t looks = RULE_LOOKS_MAX;
        at_ms = rule_next(&rule, at_ms, &looks);
        if (at_ms == 0) break;
        printf("%" PRIu64 " ", at_ms / 1000);
    }
    printf("\n");
}

int main(void) {
    char line[4096];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *fields[FIELDS], *rest = line;
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0; i < FIELDS; i++) {
            fields[i] = strsep(&rest, "\t");
            if (fields[i] == NULL) return 1;
        }
        answer(fields);
        fflush(stdout);
    }
    return 0;
}
