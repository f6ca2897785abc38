package tarry;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.function.Consumer;
import javax.net.ssl.SSLContext;
import tarry.Wire.Out;

/** A client of Tarry, a durable delay broker: it delivers a task when it is due. Any thread may call. Every call ends within the timeout. */
public final class Tarry implements AutoCloseable {
    /** Names of the attributes that carry a trace (W3C Trace Context). */
    static final List<String> TRACE_NAMES = List.of("traceparent", "tracestate");
    /** Trace of the task that the current thread's handler works on. Tasks that the handler schedules continue this trace. */
    static final ThreadLocal<Map<String, String>> TRACE = ThreadLocal.withInitial(Map::of);
    private static final System.Logger LOG = System.getLogger("tarry");
    private static final int CHUNK_OPS = 512; // operations per request of scheduleMany: others need not wait long behind one request
    private static final byte[] NO_BYTES = {};

    final Link link;
    final long timeoutMs;
    final ScheduledThreadPoolExecutor timer;
    final Committer changes = new Committer(this, "tarry-changes"); // schedules, cancels, moves
    final Committer settles = new Committer(this, "tarry-settles"); // acks, nacks, extends, releases: they do not wait behind refused schedules
    final Set<Worker> workers = ConcurrentHashMap.newKeySet();
    private final String name;
    private final Measure measure;
    private final Consumer<Map<String, String>> inject;
    private volatile byte[] cluster = NO_BYTES;

    /** Receives measurements; README.md has their names. */
    @FunctionalInterface
    public interface Measure {
        void on(String name, double value, Map<String, Object> labels);
    }

    /** Options of a client. */
    public static final class Builder {
        private final Identity identity = new Identity();
        private String urls, name = "java/" + ProcessHandle.current().pid();
        private Duration timeout = Duration.ofSeconds(10);
        private Measure measure = (name, value, labels) -> { };
        private Consumer<Map<String, String>> inject;

        private Builder() {}

        /** Addresses, separated by commas: "ws://a:7272,ws://b:7272"; null: $TARRY_BROKER, then ws://127.0.0.1:7272. */
        public Builder urls(String urls) { this.urls = urls; return this; }
        /** Sets the client's name in the broker's log. */
        public Builder name(String name) { this.name = name; return this; }
        /** Sets the default timeout of each call. Without this: 10 s. */
        public Builder timeout(Duration timeout) { this.timeout = timeout; return this; }
        public Builder token(String token) { identity.token = token; return this; }
        /** Sets the file with the token (mode 0600, read at each connect). null: $TARRY_TOKEN_FILE. */
        public Builder tokenFile(String file) { identity.tokenFile = file; return this; }
        /** Sets the PEM files for wss://. null: $TARRY_TLS_CA, $TARRY_TLS_CERT, $TARRY_TLS_KEY (PKCS #8). */
        public Builder tls(String ca, String cert, String key) { identity.ca = ca; identity.cert = cert; identity.key = key; return this; }
        public Builder sslContext(SSLContext context) { identity.context = context; return this; }
        /** Allows sending the token over ws:// to another machine, where others can read it. */
        public Builder unsafePlainToken(boolean allowed) { identity.unsafePlainToken = allowed; return this; }
        public Builder measure(Measure measure) { this.measure = measure; return this; }
        /** Sets a function that adds the trace context to the attributes of a scheduled task. */
        public Builder inject(Consumer<Map<String, String>> inject) { this.inject = inject; return this; }

        public Tarry open() {
            return new Tarry(this);
        }
    }

    private Tarry(Builder builder) {
        if (builder.identity.token != null && builder.identity.tokenFile != null) throw new IllegalArgumentException("give token or tokenFile, not both");
        name = builder.name;
        timeoutMs = builder.timeout.toMillis();
        measure = builder.measure;
        inject = builder.inject;
        link = new Link(builder.urls, builder.identity, this::connected);
        timer = new ScheduledThreadPoolExecutor(1, runnable -> {
            Thread thread = new Thread(runnable, "tarry-timer");
            thread.setDaemon(true);
            return thread;
        });
        timer.setRemoveOnCancelPolicy(true);
    }

    /** Returns a client with the default options. It connects at its first call; the broker need not be running. */
    public static Tarry open() {
        return builder().open();
    }

    public static Tarry open(String urls) {
        return builder().urls(urls).open();
    }

    public static Builder builder() {
        return new Builder();
    }

    // ---- for the other classes

    private void connected(String address, boolean isUp, String why) {
        LOG.log(System.Logger.Level.DEBUG, address + ": " + (isUp ? "connected" : why));
        measure("tarry.client.connections", isUp ? 1 : -1, Map.of("address", address));
    }

    void measure(String what, double value, Map<String, Object> labels) {
        try {
            measure.on(what, value, labels);
        } catch (RuntimeException error) { // a program's hook must not stop its work
            LOG.log(System.Logger.Level.WARNING, "the hook measure failed", error);
        }
    }

    long until(Duration timeout) {
        return Clock.now() + (timeout == null ? timeoutMs : timeout.toMillis());
    }

    byte[] request(int field, Out body) {
        return new Out().number(Wire.Request.VERSION, 1).text(Wire.Request.CLIENT, name).bytes(Wire.Request.CLUSTER, cluster).message(field, body).packed();
    }

    /**
     * Remembers the cluster. With several addresses, each request names the cluster, because a producer's number is
     * valid in one cluster only.
     */
    void metCluster(byte[] id) {
        if (link.count() > 1) cluster = id;
    }

    Wire.In ask(int field, Out body, Duration timeout) {
        Wire.In reply = new Ask(link, request(field, body), false).run(until(timeout));
        if (reply.number(Wire.Reply.CODE) != 0) throw Ask.refusal(reply);
        return reply;
    }

    private static <T> T join(CompletableFuture<T> future) {
        try {
            return future.join();
        } catch (CompletionException error) {
            throw error.getCause() instanceof TarryException known ? known.again() : error;
        }
    }

    private Result one(String operation, byte[] op) {
        Result result = join(changes.submit(List.of(op), false, until(null))).get(0);
        measure("tarry.client.operations", 1, Map.of("operation", operation, "code", result.code()));
        if (!result.ok()) throw new TarryException(result.code(), result.message(), result);
        return result;
    }

    // ---- calls

    /** Schedules a task. The code EXISTS: a live task has the key. */
    public Result schedule(Schedule task) {
        return one("schedule", task.operation(inject));
    }

    /**
     * Schedules many tasks. Returns their results in order; the result of a refused task is not ok. With isAtomic (at most 8,192 tasks) either all
     * are scheduled, or none is and the code is ABORTED.
     */
    public List<Result> scheduleMany(List<Schedule> tasks, boolean isAtomic) {
        List<byte[]> ops = tasks.stream().map(task -> task.operation(inject)).toList();
        if (isAtomic && ops.size() > Committer.OPS_MAX) throw new IllegalArgumentException("at most 8192 tasks can be scheduled atomically, not " + ops.size());
        int chunk = isAtomic ? Committer.OPS_MAX : CHUNK_OPS;
        List<CompletableFuture<List<Result>>> answers = new ArrayList<>();
        for (int at = 0; at < ops.size(); at += chunk) answers.add(changes.submit(ops.subList(at, Math.min(at + chunk, ops.size())), isAtomic, until(null)));
        List<Result> results = answers.stream().flatMap(answer -> join(answer).stream()).toList();
        for (Result result : results) measure("tarry.client.operations", 1, Map.of("operation", "schedule", "code", result.code()));
        for (Result result : results)
            if (isAtomic && !result.ok() && !result.code().equals("ABORTED")) throw new TarryException("ABORTED", result.message(), result);
        return results;
    }

    private static Out ref(String queue, String key) {
        if (queue == null || key == null || key.isEmpty()) throw new IllegalArgumentException("name the task by queue and key, or by id");
        return new Out().text(Wire.Ref.QUEUE, queue).text(Wire.Ref.KEY, key);
    }

    private static Out ref(long id) {
        return new Out().number(Wire.Ref.ID, id);
    }

    /**
     * Cancels a task. `deliveries` 0 in the result: no consumer has seen the task, and none will. The code NOT_DONE: a
     * consumer has it, or it has ended.
     */
    public Result cancel(String queue, String key) {
        return cancel(ref(queue, key), false);
    }

    public Result cancel(long id) {
        return cancel(ref(id), false);
    }

    /** Cancels a task like cancel, also if a consumer has it. */
    public Result withdraw(String queue, String key) {
        return cancel(ref(queue, key), true);
    }

    private Result cancel(Out ref, boolean withdraw) {
        return one("cancel", new Out().message(Wire.Op.CANCEL, new Out().message(Wire.Cancel.TASK, ref).flag(Wire.Cancel.WITHDRAW, withdraw)).packed());
    }

    /** Gives a task a new due time, `delay` from now. */
    public Result move(String queue, String key, Duration delay) {
        return move(ref(queue, key), Schedule.when(delay, null));
    }

    public Result move(String queue, String key, Instant at) {
        return move(ref(queue, key), Schedule.when(null, at));
    }

    private Result move(Out ref, Out when) {
        return one("move", new Out().message(Wire.Op.MOVE, new Out().message(Wire.Move.TASK, ref).message(Wire.Move.WHEN, when)).packed());
    }

    /** Returns the task; null: the broker does not know it. */
    public View get(String queue, String key) {
        return get(ref(queue, key));
    }

    public View get(long id) {
        return get(ref(id));
    }

    private View get(Out ref) {
        Wire.In reply = ask(Wire.Request.GET, new Out().message(Wire.Get.TASK, ref).flag(Wire.Get.WITH_CONTENT, true), null).message(Wire.Reply.GET);
        boolean isKnown = !Wire.outcome(reply.number(Wire.TaskReply.OUTCOME)).equals("unknown") && reply.has(Wire.TaskReply.TASK);
        return isKnown ? View.of(reply.message(Wire.TaskReply.TASK)) : null;
    }

    /** Calls the handler for each due task, in at most `concurrency` threads, until SIGTERM, SIGINT or {@link #stopWorkers}. */
    public void worker(String queue, int concurrency, Handler handler) {
        worker(List.of(queue), concurrency, handler).run();
    }

    /** Makes a worker with options; {@link Worker#run} starts the work. */
    public Worker worker(List<String> queues, int concurrency, Handler handler) {
        return new Worker(this, queues, concurrency, handler);
    }

    public void stopWorkers() {
        workers.forEach(Worker::stop);
    }

    @Override
    public void close() {
        List<Worker> working = List.copyOf(workers);
        stopWorkers();
        working.forEach(Worker::awaitEnd);
        changes.close();
        settles.close();
        link.close();
        timer.shutdownNow();
    }
}
