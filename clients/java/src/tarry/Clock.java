package tarry;

/** A monotonic clock in milliseconds, and functions that wait until a time of this clock. */
final class Clock {
    static final long NEVER = Long.MAX_VALUE;

    private Clock() {}

    /** Thrown when the caller's timeout has passed. */
    static final class TimedOut extends Exception {
        private static final long serialVersionUID = 1;

        TimedOut() {
            super(null, null, false, false);
        }
    }

    static long now() {
        return System.nanoTime() / 1_000_000;
    }

    static long left(long until) throws TimedOut {
        if (until == NEVER) return NEVER;
        long left = until - now();
        if (left <= 0) throw new TimedOut();
        return left;
    }

    /** Waits for a notification of the monitor, which the caller holds. */
    static void await(Object monitor, long until) throws TimedOut {
        try {
            monitor.wait(until == NEVER ? 0 : left(until));
        } catch (InterruptedException interrupted) {
            throw interrupted();
        }
    }

    /** Sleeps for `ms`. Throws TimedOut if `until` comes before the end of the sleep. */
    static void sleep(long ms, long until) throws TimedOut {
        try {
            Thread.sleep(Math.min(ms, left(until)));
            left(until);
        } catch (InterruptedException interrupted) {
            throw interrupted();
        }
    }

    static TarryException interrupted() {
        Thread.currentThread().interrupt();
        return new TarryException("INTERRUPTED", "the thread was interrupted; the operation may have taken effect", null);
    }
}
