package tarry;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Packing and unpacking of messages (protobuf), and the numbers of the fields that this client uses. clients_java_test.py compares them with proto/tarry.proto. */
final class Wire {
    private Wire() {}

    interface Token { int EPOCH = 1, POSITION = 2; }
    interface OpResult { int CODE = 1, OUTCOME = 2, ID = 3, DUE_MS = 4, DELIVERIES = 5, MESSAGE = 12, ATTEMPT = 13; }
    interface Request {
        int VERSION = 1, CLIENT = 2, CLUSTER = 3, HELLO = 10, COMMIT = 11, GOODBYE = 12, SUBSCRIBE = 13, HEARTBEAT = 14, UNSUBSCRIBE = 15, GET = 16;
    }
    interface Reply { int CODE = 1, MESSAGE = 2, PRIMARY = 3, FOLLOWER = 5, RETRY_MS = 9, HELLO = 10, COMMIT = 11, SUBSCRIBE = 13, GET = 16; }
    interface HelloReply { int PRODUCER = 1, CLUSTER = 5; }
    interface Goodbye { int PRODUCER = 1; }
    interface Commit { int PRODUCER = 1, SEQUENCE = 2, OLDEST_UNANSWERED = 3, ATOMIC = 4, OPS = 5; }
    interface CommitReply { int RESULTS = 1; }
    interface Op { int SCHEDULE = 1, CANCEL = 2, MOVE = 3, ACK = 4, NACK = 5, EXTEND = 6, RELEASE = 7; }
    interface When { int KIND = 1, MS = 2; }
    interface Attribute { int NAME = 1, VALUE = 2; }
    interface Content { int ATTRIBUTES = 1, PAYLOAD = 2; }
    interface Schedule { int QUEUE = 1, KEY = 2, WHEN = 3, CONTENT = 4, PRIORITY = 5, EXPIRES_MS = 6, ON_CONFLICT = 7; }
    interface Ref { int ID = 1, QUEUE = 2, KEY = 3; }
    interface Cancel { int TASK = 1, WITHDRAW = 2; }
    interface Move { int TASK = 1, WHEN = 2; }
    interface Ack { int ID = 1, TOKEN = 2; }
    interface Nack { int ID = 1, TOKEN = 2, HAS_DELAY = 3, DELAY_MS = 4, DEAD = 5, REASON = 6; }
    interface Extend { int ID = 1, TOKEN = 2, LEASE_MS = 3; }
    interface Release { int ID = 1, TOKEN = 2, WHEN = 3; }
    interface Subscribe { int QUEUES = 1, PREFETCH = 2, LEASE_MS = 4, RESUME = 5; }
    interface SubscribeReply { int SESSION = 1, LANE = 2, SECRET = 3, SILENCE_MS = 4, RESUMED = 5; }
    interface Heartbeat { int SESSION = 1; }
    interface Unsubscribe { int SESSION = 1, KEEP_LEASES = 2, SEEN = 3; }
    interface Delivery { int SESSION = 1, DELIVERED_MS = 2, TASKS = 3; }
    interface DeliveredTask {
        int ID = 1, QUEUE = 2, KEY = 3, DUE_MS = 4, ATTEMPT = 5, DELIVERIES = 6, TOKEN = 7, PRIORITY = 8, LEASE_DEADLINE_MS = 9, CONTENT = 10;
    }
    interface Get { int TASK = 1, WITH_CONTENT = 2; }
    interface TaskReply { int OUTCOME = 1, TASK = 2; }
    interface TaskView {
        int ID = 1, QUEUE = 2, KEY = 3, STATE = 4, DUE_MS = 5, PRIORITY = 6, ATTEMPT = 7, DELIVERIES = 8, REASON = 16, CONTENT = 18;
    }

    static final List<String> CODES = List.of("OK", "INVALID", "TOO_LARGE", "UNSUPPORTED", "NO_SUCH_QUEUE", "EXISTS", "NOT_DONE", "STALE_TOKEN", "ABORTED",
        "FORGOTTEN", "BUSY", "STOPPING", "NO_SUCH_SESSION", "NOT_PRIMARY", "FAILED", "DENIED", "BEHIND", "TOO_OLD");
    static final List<String> OUTCOMES = List.of("NONE", "SCHEDULED", "REPLACED", "KEPT", "LIVE", "MOVED", "CANCELLED", "ALREADY_CANCELLED", "IN_FLIGHT", "DEAD",
        "ACKED", "EXPIRED", "DROPPED", "UNKNOWN", "NACKED", "BURIED", "EXTENDED", "RELEASED", "REQUEUED", "DONE", "PENDING", "REDACTED", "SHARED", "UNMATCHED");

    static String code(long number) {
        return number >= 0 && number < CODES.size() ? CODES.get((int) number) : "CODE_" + number;
    }

    /** Returns the outcome's name in lower case. The outcome LIVE (a live task has the key) is called "exists", as in the output of `tarry`. */
    static String outcome(long number) {
        String name = number >= 0 && number < OUTCOMES.size() ? OUTCOMES.get((int) number) : "outcome " + number;
        return name.equals("LIVE") ? "exists" : name.toLowerCase();
    }

    private static final int VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;

    /** A message that is being packed. Number and text fields with their default value are left out. */
    static final class Out {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        private void varint(long value) {
            for (; (value & ~0x7fL) != 0; value >>>= 7) bytes.write((int) (value & 0x7f) | 0x80);
            bytes.write((int) value);
        }

        Out number(int field, long value) {
            return value == 0 ? this : item(field, value);
        }

        /** Adds one number of a repeated field. */
        Out item(int field, long value) {
            varint((long) field << 3 | VARINT);
            varint(value);
            return this;
        }

        Out flag(int field, boolean value) {
            return number(field, value ? 1 : 0);
        }

        Out bytes(int field, byte[] value) {
            return value.length == 0 ? this : message(field, value);
        }

        Out text(int field, String value) {
            return value == null ? this : bytes(field, value.getBytes(StandardCharsets.UTF_8));
        }

        Out message(int field, Out value) {
            return message(field, value.packed());
        }

        Out message(int field, byte[] packed) {
            varint((long) field << 3 | BYTES);
            varint(packed.length);
            bytes.writeBytes(packed);
            return this;
        }

        byte[] packed() {
            return bytes.toByteArray();
        }
    }

    /** Fields of an unpacked message. Unknown fields are kept but never read. */
    static final class In {
        private final Map<Integer, List<Object>> fields = new HashMap<>();
        private final byte[] bytes;
        private int at;

        /** Throws IllegalArgumentException if the message is malformed. */
        In(byte[] bytes) {
            this.bytes = bytes;
            while (at < bytes.length) {
                long tag = varint();
                Object value = switch ((int) (tag & 7)) {
                    case VARINT -> varint();
                    case BYTES -> take(varint());
                    case FIXED64 -> take(8);
                    case FIXED32 -> take(4);
                    default -> throw new IllegalArgumentException("malformed message: wire type " + (tag & 7));
                };
                fields.computeIfAbsent((int) (tag >>> 3), number -> new ArrayList<>(1)).add(value);
            }
        }

        private long varint() {
            long value = 0;
            for (int shift = 0; shift < 70; shift += 7) {
                if (at >= bytes.length) throw new IllegalArgumentException("malformed message: it ends within a field");
                byte one = bytes[at++];
                value |= (long) (one & 0x7f) << shift;
                if (one >= 0) return value;
            }
            throw new IllegalArgumentException("malformed message: a number of more than ten bytes");
        }

        private byte[] take(long size) {
            if (size < 0 || size > bytes.length - at) throw new IllegalArgumentException("malformed message: it ends within a field");
            at += (int) size;
            return java.util.Arrays.copyOfRange(bytes, at - (int) size, at);
        }

        private <T> T last(int field, Class<T> type, T absent) {
            List<Object> values = fields.get(field);
            if (values == null) return absent;
            Object value = values.get(values.size() - 1);
            if (!type.isInstance(value)) throw new IllegalArgumentException("malformed message: field " + field + " has another type");
            return type.cast(value);
        }

        boolean has(int field) {
            return fields.containsKey(field);
        }

        long number(int field) {
            return last(field, Long.class, 0L);
        }

        boolean flag(int field) {
            return number(field) != 0;
        }

        byte[] bytes(int field) {
            return last(field, byte[].class, new byte[0]);
        }

        String text(int field) {
            return new String(bytes(field), StandardCharsets.UTF_8);
        }

        In message(int field) {
            return new In(bytes(field));
        }

        List<In> messages(int field) {
            List<In> found = new ArrayList<>();
            for (Object value : fields.getOrDefault(field, List.of())) {
                if (!(value instanceof byte[] packed)) throw new IllegalArgumentException("malformed message: field " + field + " has another type");
                found.add(new In(packed));
            }
            return found;
        }
    }
}
