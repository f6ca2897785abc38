package tarry;

/** A call failed. {@link #code} is the broker's code, such as "EXISTS"; {@link #result} the broker's result for the operation, or null. */
public class TarryException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private final String code;
    private final transient Result result;

    TarryException(String code, String message, Result result) {
        super(code.toLowerCase() + ": " + message);
        this.code = code;
        this.result = result;
    }

    public String code() {
        return code;
    }

    public Result result() {
        return result;
    }

    /** Returns a copy for another caller, with that caller's stack trace. */
    TarryException again() {
        TarryException copy = this instanceof Unavailable ? new Unavailable(bare()) : this instanceof OutcomeUnknown ? new OutcomeUnknown(bare())
            : new TarryException(code, bare(), result);
        copy.initCause(this);
        return copy;
    }

    private String bare() {
        return getMessage().substring(code.length() + 2);
    }

    /** The timeout has passed, and nothing was done. */
    public static final class Unavailable extends TarryException {
        private static final long serialVersionUID = 1;

        Unavailable(String why) {
            super("UNAVAILABLE", why, null);
        }
    }

    /** The timeout has passed after the request was sent, so the request may have taken effect. */
    public static final class OutcomeUnknown extends TarryException {
        private static final long serialVersionUID = 1;

        OutcomeUnknown(String why) {
            super("UNKNOWN", why, null);
        }
    }
}
