/* sim.c: plays random histories on all cores, one process per core, and counts them. A failing seed is played again
 * with its trace on. The report has the trace's last lines, the seed, the commit, and the command that plays it
 * again.
 *
 * sim [--pair | --steady] [--no-ahead] [--seed N] [--histories N] [--hours H] [--jobs N] [--commit TEXT] [--tap]
 *
 * SIM_TRACE=1 prints every history as it happens. On a terminal a progress line is kept up to date. One history in
 * AGAIN_EVERY is played twice, and both runs must be equal. */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../must.h"
#include "history.h"

#define JOBS_LIMIT 256
#define HOURS_MAX 100000.0
#define AGAIN_EVERY 64 /* one history in this number is played twice, and its two runs must be equal */
#define STUCK_S 60     /* limit of CPU time; a history takes milliseconds of it, even on a busy machine */

struct job { /* state of one job, in memory that it shares with the parent process */
    pid_t pid;
    _Atomic uint64_t seed; /* seed of the history that the job is playing */
    _Atomic uint64_t histories;
    _Atomic uint64_t simulated_ms;
    _Atomic uint64_t requests, deliveries, starts, faults;
};

static struct options {
    uint64_t seed;
    uint64_t histories; /* number of histories to play; 0: play until the time limit */
    double hours;       /* time limit in hours; 0: play until the history limit */
    int jobs;
    const char *commit;
    bool tap;
    const struct kind *kind;
} options;

typedef void play_history(struct world *world, uint64_t seed, struct history_report *report);

static const struct kind {
    const char *option; /* option of the command line that selects this kind of history; "": the default */
    play_history *play;
} kinds[] = {{"", history_play}, {"--pair", pair_history_play}, {"--steady", steady_history_play}};

static double now_s(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Restarts the watchdog. It kills the process by SIGPROF after STUCK_S seconds of CPU time without a call of this
 * function. */
static void watch_anew(void) {
    struct itimerval left = {.it_value.tv_sec = STUCK_S};
    MUST(setitimer(ITIMER_PROF, &left, NULL) == 0);
}

/* ---- a worker */

static void work(struct job *job, uint64_t first, uint64_t step, uint64_t count, double until_s) {
    struct world *world = world_new();
    world->trace.on = world->trace.live = getenv("SIM_TRACE") != NULL;
    for (uint64_t i = 0; i < count && now_s() < until_s; i++) {
        struct history_report report;
        job->seed = first + i * step;
        watch_anew();
        if (world->trace.on) (void)fprintf(stderr, "seed %" PRIu64 "\n", job->seed);
        options.kind->play(world, job->seed, &report);
        if (i % AGAIN_EVERY == 0) {
            struct history_report again;
            options.kind->play(world, job->seed, &again);
            MUST(again.fingerprint == report.fingerprint); /* the two runs of a history must be equal */
        }
        job->histories++;
        job->simulated_ms += report.simulated_ns / 1000000;
        job->requests += report.requests;
        job->deliveries += report.deliveries;
        job->starts += report.starts;
        job->faults += report.faults;
    }
    world_free(world);
}

/* ---- failure */

static struct world *told_world; /* the world whose trace the signal handler prints */

static void tell_and_die(int number) {
    /* The process ends in any case. So the trace is printed here, although printing in a signal handler may fail. */
    trace_print_last(&told_world->trace); /* NOLINT(bugprone-signal-handler) */
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void tell(uint64_t seed) {
    (void)fprintf(stderr, "\nseed %" PRIu64 " failed%s%s. Its last lines:\n\n", seed, *options.commit ? " at " : "",
                  options.commit);
    (void)fflush(NULL);
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        struct history_report report;
        told_world = world_new();
        told_world->trace.on = true;
        (void)signal(SIGABRT, tell_and_die);
        (void)signal(SIGSEGV, tell_and_die);
        (void)signal(SIGPROF, tell_and_die);
        watch_anew();
        options.kind->play(told_world, seed, &report);
        (void)fprintf(stderr, "(played again it does not fail: what happened is not in the seed alone)\n");
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    (void)fprintf(stderr, "\nplay it again:  SIM_TRACE=1 ./dev sim %s%s --seed %" PRIu64 " --histories 1\n",
                  options.kind->option, history_leases_ahead ? "" : " --no-ahead", seed);
}

/* ---- the parent */

static struct { uint64_t histories, simulated_ms, requests, deliveries, starts, faults; } sum;

static void count_up(const struct job *jobs) {
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < options.jobs; i++) {
        sum.histories += jobs[i].histories;
        sum.simulated_ms += jobs[i].simulated_ms;
        sum.requests += jobs[i].requests;
        sum.deliveries += jobs[i].deliveries;
        sum.starts += jobs[i].starts;
        sum.faults += jobs[i].faults;
    }
}

static void print_progress(double started_s, bool is_last) {
    double passed_s = now_s() - started_s + 1e-9;
    double days = (double)sum.simulated_ms / 86400e3;
    if (is_last) {
        (void)printf("histories=%" PRIu64 " failed=0 simulated_days=%.0f histories_per_s=%.0f simulated_s_per_s=%.0f "
                     "requests=%" PRIu64 " deliveries=%" PRIu64 " starts=%" PRIu64 " faults=%" PRIu64
                     " first_seed=%" PRIu64 "\n",
                     sum.histories, days, (double)sum.histories / passed_s, (double)sum.simulated_ms / 1e3 / passed_s,
                     sum.requests, sum.deliveries, sum.starts, sum.faults, options.seed);
    } else if (isatty(STDERR_FILENO)) {
        (void)fprintf(stderr, "\r%" PRIu64 " histories, %.0f a second, %.0f simulated days, %.0f s \033[K",
                      sum.histories, (double)sum.histories / passed_s, days, passed_s);
    }
}

static void start_jobs(struct job *jobs, double until_s) {
    uint64_t step = (uint64_t)options.jobs;
    for (int i = 0; i < options.jobs; i++) {
        uint64_t count = options.histories ? (options.histories + step - 1 - (uint64_t)i) / step : UINT64_MAX;
        pid_t pid = fork();
        MUST(pid >= 0);
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
            work(&jobs[i], options.seed + (uint64_t)i, step, count, until_s);
            exit(0); /* exit runs LeakSanitizer, which _exit would not */
        }
        jobs[i].pid = pid;
    }
}

/* Waits for all jobs. If one fails, ends the others. Returns the job that failed, or NULL. */
static struct job *wait_jobs(struct job *jobs, double started_s) {
    struct job *failed = NULL;
    for (int left = options.jobs; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == 0) {
            count_up(jobs);
            print_progress(started_s, false);
            (void)usleep(200000);
            continue;
        }
        if (pid < 0) break;
        left--;
        for (int i = 0; i < options.jobs; i++) {
            if (jobs[i].pid != pid) {
                if (jobs[i].pid && failed) (void)kill(jobs[i].pid, SIGTERM);
                continue;
            }
            jobs[i].pid = 0;
            if (!failed && status != 0) {
                failed = &jobs[i];
                for (int k = 0; k < options.jobs; k++)
                    if (jobs[k].pid) (void)kill(jobs[k].pid, SIGTERM);
            }
        }
    }
    return failed;
}

__attribute__((noreturn)) static void refuse(const char *option, const char *value, const char *takes) {
    (void)fprintf(stderr, "sim: %s takes %s, not '%s'\n", option, takes, value);
    exit(2);
}

static uint64_t whole_number(const char *option, const char *value, uint64_t least, uint64_t most) {
    char *end, takes[80];
    errno = 0;
    uint64_t number = strtoull(value, &end, 0);
    if (value[0] >= '0' && value[0] <= '9' && !*end && !errno && number >= least && number <= most) return number;
    (void)snprintf(takes, sizeof takes, "a whole number from %" PRIu64 " to %" PRIu64, least, most);
    refuse(option, value, takes);
}

static double hours_of(const char *option, const char *value) {
    char *end;
    double hours = strtod(value, &end);
    if (end == value || *end || !(hours > 0 && hours <= HOURS_MAX))
        refuse(option, value, "a number above 0, of hours, 100,000 at most");
    return hours;
}

/* Returns the kind of history that the option selects; NULL: none. */
static const struct kind *find_kind(const char *option) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].option[0] != '\0' && strcmp(kinds[i].option, option) == 0) return &kinds[i];
    return NULL;
}

static void read_options(int argc, char **argv) {
    options = (struct options){.seed = 1, .commit = "", .kind = &kinds[0]};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--no-ahead") == 0) {
            history_leases_ahead = false;
            continue;
        }
        if (strcmp(argv[i], "--tap") == 0) {
            options.tap = true;
            continue;
        }
        const struct kind *kind = find_kind(argv[i]);
        if (kind != NULL) {
            options.kind = kind;
            continue;
        }
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = whole_number(argv[i], value, 0, UINT64_MAX);
        else if (strcmp(argv[i], "--histories") == 0)
            options.histories = whole_number(argv[i], value, 1, UINT64_MAX);
        else if (strcmp(argv[i], "--hours") == 0)
            options.hours = hours_of(argv[i], value);
        else if (strcmp(argv[i], "--jobs") == 0)
            options.jobs = (int)whole_number(argv[i], value, 1, JOBS_LIMIT);
        else if (strcmp(argv[i], "--commit") == 0)
            options.commit = value;
        else {
            (void)fprintf(stderr, "sim: unknown option '%s'\n", argv[i]);
            exit(2);
        }
        i++;
    }
    if (!options.histories && options.hours <= 0) options.histories = 10000;
    if (options.jobs < 1) options.jobs = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (options.jobs > JOBS_LIMIT) options.jobs = JOBS_LIMIT;
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* large blocks come from mmap and are zero, as the core's tables must be at
                                            the start of each history */
    /* cppcheck-suppress invalidFunctionArg ; -1 is what goes with MAP_ANONYMOUS */
    struct job *jobs = mmap(NULL, JOBS_LIMIT * sizeof *jobs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(jobs != MAP_FAILED);
    double started_s = now_s();
    start_jobs(jobs, options.hours > 0 ? started_s + options.hours * 3600 : 1e18);
    struct job *failed = wait_jobs(jobs, started_s);
    count_up(jobs);
    if (isatty(STDERR_FILENO)) (void)fprintf(stderr, "\r\033[K");
    if (failed) {
        tell(failed->seed);
        if (options.tap) (void)printf("1..1\nnot ok 1 - histories\n");
        return 1;
    }
    if (options.tap) (void)printf("1..1\nok 1 - %" PRIu64 " histories\n# ", sum.histories);
    print_progress(started_s, true);
    return 0;
}
