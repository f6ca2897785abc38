package tarry;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import tarry.Wire.Out;

/**
 * A subscription, the handlers of its tasks, and their leases.
 *
 * The broker sends tasks over a lane as they fall due, at most `prefetch` that are not settled. Each task comes with a lease. When half of a lease's
 * time is over, the worker extends the lease, also for tasks that wait for a handler. If the connection is lost or another broker leads, the worker
 * subscribes again with the session's secret and keeps its leases and tokens.
 */
public final class Worker {
    private static final System.Logger LOG = System.getLogger("tarry");
    private static final int PREFETCH_MAX = 16384;
    private static final long SUBSCRIBE_AGAIN_MS = 1000; // after a refusal of a later subscription
    private static final long EXTEND_AGAIN_MS = 200; // after an extension that got no answer
    private static final long SILENCE_MIN_MS = 1000;

    private final Tarry client;
    private final List<String> queues;
    private final int concurrency;
    private final Handler handler;
    private int prefetch;
    private Duration lease = Duration.ZERO, drain = Duration.ofSeconds(30);
    private boolean signals = true;
    private ExecutorService threads;
    private Thread subscriber;

    // The monitor protects the following members.
    private final Map<Long, Held> held = new HashMap<>(); // task id → lease
    private final Map<Long, Task.Token> returned = new HashMap<>(); // task id → token that was settled and may be delivered once more
    private final Queue<Held> waiting = new ArrayDeque<>();
    private ScheduledFuture<?> keeper; // calls keepLeases when the next extension is due
    private Connection lane;
    private byte[] secret = {};
    private long session;
    private int running, settling;
    private boolean isStopping, isEnded;
    private TarryException problem; // why the first subscription was refused

    private static final class Held {
        final Task task;
        long until, extendAt; // counted from the arrival of the task, or from the sending of the extension
        boolean isSeen; // the task's handler was started
        boolean isSettling;
        boolean mayReturn; // after a resumption the broker may deliver it once more under this token
        Thread thread; // thread of the task's handler

        Held(Task task, long now) {
            this.task = task;
            leased(now);
        }

        void leased(long since) {
            until = since + task.leaseMs;
            extendAt = since + task.leaseMs / 2;
        }
    }

    Worker(Tarry client, List<String> queues, int concurrency, Handler handler) {
        if (concurrency < 1) throw new IllegalArgumentException("concurrency must be 1 or more, not " + concurrency);
        this.client = client;
        this.queues = queues;
        this.concurrency = concurrency;
        this.handler = handler;
        prefetch = 2 * concurrency;
    }

    /** Sets the number of tasks that this worker may have. Without this: 2 × concurrency. */
    public Worker prefetch(int count) {
        prefetch = count;
        return this;
    }

    /** Sets the duration of the leases. Zero: that of the queue's policy. */
    public Worker lease(Duration length) {
        lease = length;
        return this;
    }

    /**
     * Sets the time that handlers have to finish after {@link #stop}. Without this: 30 s. After it, they are interrupted and
     * their tasks are given back.
     */
    public Worker drain(Duration time) {
        drain = time;
        return this;
    }

    /** Sets whether SIGTERM and SIGINT stop the worker by a shutdown hook. Default: true. */
    public Worker signals(boolean on) {
        signals = on;
        return this;
    }

    /** Works until {@link #stop}, SIGTERM or SIGINT. */
    public void run() {
        threads = Executors.newFixedThreadPool(concurrency, runnable -> daemon(runnable, "tarry-handler"));
        Thread hook = new Thread(this::stopAndWait, "tarry-stop");
        if (signals) Runtime.getRuntime().addShutdownHook(hook);
        client.workers.add(this);
        subscriber = daemon(this::subscribeAlways, "tarry-session");
        subscriber.start();
        try {
            awaitStop();
            if (problem == null) {
                unsubscribe();
                drain();
            }
        } finally {
            threads.shutdownNow();
            client.workers.remove(this);
            synchronized (this) {
                isEnded = isStopping = true;
                if (keeper != null) keeper.cancel(false);
                if (lane != null) lane.close();
                notifyAll();
            }
            try {
                if (signals) Runtime.getRuntime().removeShutdownHook(hook);
            } catch (IllegalStateException shuttingDown) {
                LOG.log(System.Logger.Level.DEBUG, "the hook runs");
            }
        }
        if (problem != null) throw problem.again();
    }

    private static Thread daemon(Runnable runnable, String name) {
        Thread thread = new Thread(runnable, name);
        thread.setDaemon(true);
        return thread;
    }

    /** Makes the worker finish the tasks that it has begun, give back the others, and return from {@link #run}. */
    public synchronized void stop() {
        isStopping = true;
        notifyAll();
    }

    private void stopAndWait() {
        stop();
        awaitEnd();
    }

    synchronized void awaitEnd() {
        try {
            while (!isEnded) wait();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private synchronized void awaitStop() {
        try {
            while (!isStopping && problem == null) wait();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
        isStopping = true;
    }

    private synchronized boolean isStopping() {
        return isStopping;
    }

    // ---- the subscription

    private void subscribeAlways() {
        boolean isFirst = true;
        while (!isStopping()) {
            Ask ask;
            Wire.In reply;
            try {
                Out subscribe = new Out();
                for (String queue : queues) subscribe.text(Wire.Subscribe.QUEUES, queue);
                subscribe.number(Wire.Subscribe.PREFETCH, Math.min(prefetch, PREFETCH_MAX)).number(Wire.Subscribe.LEASE_MS, lease.toMillis())
                    .bytes(Wire.Subscribe.RESUME, secret);
                ask = new Ask(client.link, client.request(Wire.Request.SUBSCRIBE, subscribe), false);
                reply = ask.run(Clock.NEVER);
                if (reply.number(Wire.Reply.CODE) != 0) throw Ask.refusal(reply);
            } catch (TarryException error) {
                if (error.code().equals("NO_SUCH_SESSION") || error.code().equals("INVALID") && secret.length > 0) {
                    secret = new byte[0];
                    forget();
                    continue;
                }
                synchronized (this) {
                    if (isFirst) {
                        problem = error;
                        notifyAll();
                        return;
                    }
                }
                LOG.log(System.Logger.Level.WARNING, "the subscription to " + queues + " was refused: " + error.getMessage());
                pause(SUBSCRIBE_AGAIN_MS);
                continue;
            }
            isFirst = false;
            serve(reply.message(Wire.Reply.SUBSCRIBE), ask.connection.index);
        }
    }

    private synchronized void pause(long ms) {
        try {
            if (!isStopping) wait(ms);
        } catch (InterruptedException interrupted) {
            isStopping = true;
        }
    }

    /** Serves one session at one broker, until the lane or the heartbeats show that the session has ended. */
    private void serve(Wire.In reply, int index) {
        synchronized (this) {
            if (reply.flag(Wire.SubscribeReply.RESUMED)) {
                returned.clear();
                for (Held one : held.values()) one.mayReturn = true;
            } else {
                forget();
            }
            session = reply.number(Wire.SubscribeReply.SESSION);
            secret = reply.bytes(Wire.SubscribeReply.SECRET);
        }
        long mine = session;
        Connection opened;
        try {
            opened = client.link.openLane(index, reply.number(Wire.SubscribeReply.LANE), HexFormat.of().formatHex(secret), message -> deliver(new Wire.In(message)));
        } catch (IOException error) {
            LOG.log(System.Logger.Level.INFO, "the lane of session " + Long.toUnsignedString(mine) + ": " + error.getMessage());
            pause(10);
            return;
        }
        synchronized (this) {
            lane = opened;
            if (isEnded) opened.close();
        }
        long intervalMs = Math.max(reply.number(Wire.SubscribeReply.SILENCE_MS), SILENCE_MIN_MS) / 3;
        Thread heart = daemon(() -> beat(opened, mine, index, intervalMs), "tarry-heartbeat");
        heart.start();
        opened.closed().join();
        heart.interrupt();
        synchronized (this) {
            lane = null;
        }
    }

    /** Sends heartbeats. Closes the lane when the session has ended, or when another broker leads. */
    private void beat(Connection mine, long of, int index, long intervalMs) {
        byte[] heartbeat = client.request(Wire.Request.HEARTBEAT, new Out().number(Wire.Heartbeat.SESSION, of));
        while (mine.isOpen()) {
            try {
                Thread.sleep(intervalMs);
                Ask ask = new Ask(client.link, heartbeat, false);
                String code = Wire.code(ask.run(Clock.NEVER).number(Wire.Reply.CODE));
                if (code.equals("NO_SUCH_SESSION") || ask.connection.index != index) mine.close();
            } catch (InterruptedException ended) {
                return;
            } catch (TarryException error) {
                if (error.code().equals("CLOSED") || error.code().equals("INTERRUPTED")) return;
                LOG.log(System.Logger.Level.WARNING, "heartbeat: " + error.getMessage());
            }
        }
    }

    /** Drops all tasks that no handler has begun, because a new session begins. The broker delivers them again. */
    private synchronized void forget() {
        waiting.clear();
        returned.clear();
        held.values().removeIf(one -> !one.isSeen);
        for (Held one : held.values()) one.mayReturn = false;
    }

    // ---- tasks

    private synchronized void deliver(Wire.In delivery) {
        if (delivery.number(Wire.Delivery.SESSION) != session || isStopping) return;
        long deliveredMs = delivery.number(Wire.Delivery.DELIVERED_MS);
        for (Wire.In message : delivery.messages(Wire.Delivery.TASKS)) {
            Task task = new Task(message, deliveredMs);
            Held present = held.get(task.id());
            Task.Token settled = returned.get(task.id());
            if (present != null && !present.task.token.isOlderThan(task.token) || settled != null && !settled.isOlderThan(task.token)) continue;
            if (present != null) lost(present);
            Held fresh = new Held(task, Clock.now());
            held.put(task.id(), fresh);
            waiting.add(fresh);
            client.measure("tarry.worker.lateness.seconds", Math.max(0, deliveredMs - task.dueMs()) / 1000.0, Map.of("queue", task.queue()));
        }
        start();
        armKeeper();
    }

    private void start() {
        while (!waiting.isEmpty() && running < concurrency && !isStopping) {
            Held next = waiting.poll();
            if (held.get(next.task.id()) != next) continue; // a later lease replaced it
            if (Clock.now() >= next.until) {
                lost(next);
                continue;
            }
            next.isSeen = true;
            running++;
            threads.execute(() -> handle(next));
        }
    }

    private void handle(Held one) {
        Task task = one.task;
        long started = System.nanoTime();
        synchronized (this) {
            one.thread = Thread.currentThread();
        }
        Tarry.TRACE.set(task.trace());
        String result;
        byte[] op;
        try {
            handler.handle(task);
            result = "acked";
            op = task.ack();
        } catch (Verdict.Release verdict) {
            result = "released";
            op = task.release(verdict.delay);
        } catch (Verdict.Dead verdict) {
            result = "dead";
            op = task.nack(verdict.getMessage(), null, true);
        } catch (Verdict.Retry verdict) {
            result = "retried";
            op = task.nack(verdict.getMessage(), verdict.delay, false);
        } catch (Throwable error) { // an Error counts as a failure of the handler, too
            LOG.log(System.Logger.Level.WARNING, "the handler of " + task + " failed", error);
            result = "retried";
            op = task.nack(error.toString(), null, false);
        } finally {
            Tarry.TRACE.remove();
        }
        client.measure("tarry.worker.handler.seconds", (System.nanoTime() - started) / 1e9, Map.of("queue", task.queue(), "result", result));
        synchronized (this) {
            one.thread = null;
            Thread.interrupted(); // clears an interrupt that was meant for this handler
            running--;
            if (!one.isSettling) settle(one, op, result);
            start();
            notifyAll();
        }
    }

    /**
     * Sends an ack, nack or release. Does not wait for the reply, so another handler may start; operations of many tasks
     * share a request. The caller holds the monitor.
     */
    private void settle(Held one, byte[] op, String result) {
        one.isSettling = true;
        settling++;
        client.settles.submit(List.of(op), false, client.until(null)).whenComplete((results, error) -> {
            String end = result;
            if (error != null) {
                LOG.log(System.Logger.Level.WARNING, result + " of " + one.task + ": " + error.getMessage());
                end = "unknown";
            } else if (!results.get(0).ok()) {
                end = "lost";
            } else if (result.equals("retried") && results.get(0).outcome().equals("buried")) {
                end = "dead"; // the last attempt has failed
            }
            client.measure("tarry.worker.tasks", 1, Map.of("queue", one.task.queue(), "result", end, "task", one.task));
            synchronized (this) {
                settling--;
                if (error == null && one.mayReturn) returned.put(one.task.id(), one.task.token);
                held.remove(one.task.id(), one);
                notifyAll();
            }
        });
    }

    private void lost(Held one) {
        one.task.isLeaseLost = true;
        if (!one.isSeen) client.measure("tarry.worker.tasks", 1, Map.of("queue", one.task.queue(), "result", "lost", "task", one.task));
        held.remove(one.task.id(), one);
    }

    // ---- leases

    private synchronized void keepLeases() {
        long now = Clock.now();
        for (Held one : new ArrayList<>(held.values())) {
            if (one.isSettling || one.extendAt > now) continue;
            one.extendAt = Clock.NEVER; // no further extension until this one is answered
            client.settles.submit(List.of(one.task.extend()), false, client.until(null)).whenComplete((results, error) -> extended(one, now, results, error));
        }
        armKeeper();
    }

    private void armKeeper() {
        long next = held.values().stream().filter(one -> !one.isSettling).mapToLong(one -> one.extendAt).min().orElse(Clock.NEVER);
        if (keeper != null) keeper.cancel(false);
        if (next != Clock.NEVER && !isEnded) keeper = client.timer.schedule(this::keepLeases, Math.max(0, next - Clock.now()), TimeUnit.MILLISECONDS);
    }

    private synchronized void extended(Held one, long since, List<Result> results, Throwable error) {
        if (error != null) {
            LOG.log(System.Logger.Level.WARNING, "extend of " + one.task + ": " + error.getMessage());
            one.extendAt = Clock.now() + EXTEND_AGAIN_MS;
        } else if (results.get(0).ok()) {
            one.leased(since);
        } else if (!one.isSettling) {
            lost(one);
        }
        armKeeper();
    }

    // ---- the end

    /**
     * Ends the session. Tasks that no handler has begun are released at once without an attempt; the other leases stay until
     * they are settled. Call it while the lane is open, because the broker withdraws all leases of a session that lost its lane.
     */
    private void unsubscribe() {
        Out unsubscribe = new Out().number(Wire.Unsubscribe.SESSION, session).flag(Wire.Unsubscribe.KEEP_LEASES, true);
        synchronized (this) {
            waiting.clear();
            held.values().removeIf(one -> !one.isSeen);
            for (long id : held.keySet()) unsubscribe.item(Wire.Unsubscribe.SEEN, id);
            if (session == 0) return;
        }
        try {
            client.ask(Wire.Request.UNSUBSCRIBE, unsubscribe, null);
        } catch (TarryException error) {
            LOG.log(System.Logger.Level.WARNING, "unsubscribe: " + error.getMessage());
        }
    }

    private synchronized void drain() {
        if (lane != null) lane.close();
        long until = Clock.now() + drain.toMillis();
        try {
            while (running > 0) Clock.await(this, until);
        } catch (Clock.TimedOut late) {
            LOG.log(System.Logger.Level.WARNING, running + " handlers did not finish within " + drain + ": their tasks go back");
            for (Held one : new ArrayList<>(held.values())) {
                if (one.thread == null) continue;
                one.thread.interrupt();
                settle(one, one.task.release(null), "released");
            }
        }
        try {
            while (settling > 0) Clock.await(this, Clock.NEVER);
        } catch (Clock.TimedOut never) {
            throw new IllegalStateException(never);
        }
    }
}
