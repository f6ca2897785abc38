package tarry;

import java.time.Duration;

/** Thrown by a handler to decide about its task (dead, later, …). */
public class Verdict extends RuntimeException {
    private static final long serialVersionUID = 1;
    final Duration delay;

    private Verdict(String reason, Duration delay) {
        super(reason, null, false, false);
        this.delay = delay;
    }

    /** Delivers the task again, after `delay`; if `delay` is null, after the queue's backoff. An attempt is charged. */
    public static final class Retry extends Verdict {
        private static final long serialVersionUID = 1;

        public Retry(String reason, Duration delay) {
            super(reason, delay);
        }
    }

    /** Moves the task to the dead letters. */
    public static final class Dead extends Verdict {
        private static final long serialVersionUID = 1;

        public Dead(String reason) {
            super(reason, null);
        }
    }

    /** Gives the task back without charging an attempt. It is due again after the delay. */
    public static final class Release extends Verdict {
        private static final long serialVersionUID = 1;

        public Release(Duration delay) {
            super("released", delay);
        }
    }
}
