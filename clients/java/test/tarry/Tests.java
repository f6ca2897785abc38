package tarry;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import tarry.Wire.In;
import tarry.Wire.Out;

/** Unit tests without a test library. Each public method is a test. */
public final class Tests {
    private Tests() {}

    private static void same(Object found, Object wanted) {
        if (!java.util.Objects.equals(found, wanted)) throw new AssertionError("found " + found + ", not " + wanted);
    }

    private static void truth(boolean holds, Object what) {
        if (!holds) throw new AssertionError(what);
    }

    private static <E extends Throwable> E fails(Class<E> type, Runnable run) {
        try {
            run.run();
        } catch (Throwable error) {
            if (type.isInstance(error)) return type.cast(error);
            throw new AssertionError(error);
        }
        throw new AssertionError("nothing was thrown, " + type + " was expected");
    }

    public static void aMessageSurvivesPackingAndUnpacking() {
        In in = new In(new Out().number(1, -1).number(2, 0).text(3, "ü").flag(4, true).item(5, 0).item(5, 300).message(6, new Out()).packed());
        same(in.number(1), -1L);
        same(in.has(2), false);
        same(in.text(3), "ü");
        same(in.flag(4), true);
        same(in.messages(6).size(), 1);
    }

    public static void noBytesFromOutsideDoMoreThanThrow() {
        byte[] good = new Out().number(1, 1L << 40).message(3, new Out().number(1, 5).text(2, "q").message(7, new Out().number(1, 1))).packed();
        Random random = new Random(1);
        for (int round = 0; round < 20000; round++) {
            byte[] bytes = Arrays.copyOf(good, 1 + random.nextInt(good.length));
            bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
            try {
                In in = new In(bytes);
                in.number(1);
                for (In task : in.messages(3)) new Task(task, 0);
            } catch (IllegalArgumentException refused) {
                truth(refused.getMessage().startsWith("malformed message"), refused);
            }
        }
    }

    public static void timesRoundUpAndBadOnesAreRefused() {
        same(Schedule.milliseconds("x", Duration.ofNanos(1)), 1L);
        same(Schedule.milliseconds("x", Duration.ofMillis(1500)), 1500L);
        same(new In(Schedule.when(null, Instant.parse("2030-01-01T08:00:00Z")).packed()).number(Wire.When.MS), 1893484800000L);
        fails(IllegalArgumentException.class, () -> Schedule.milliseconds("x", Duration.ofMillis(-1)));
        fails(IllegalArgumentException.class, () -> Schedule.when(Duration.ZERO, Instant.now()));
        fails(IllegalArgumentException.class, () -> new Schedule("q").onConflict("twice"));
        for (String urls : List.of("http://a:1", "ws://", "ws://a:1/path", "ws://a:1,", "a:1", "ws://a b:1"))
            fails(IllegalArgumentException.class, () -> Link.parse(urls));
    }

    public static void reasonsAreCutAtACharacter() {
        same(Schedule.reason("ü".repeat(200)), "ü".repeat(127));
        same(Schedule.reason("a\0b"), "a b");
        same(Schedule.reason(null), "null");
    }

    private static Map<String, String> sent(Schedule task, Consumer<Map<String, String>> inject) {
        return Content.of(new In(task.operation(inject)).message(Wire.Op.SCHEDULE).bytes(Wire.Schedule.CONTENT)).attributes();
    }

    public static void theTraceGoesAlongUnlessTheProgramSaysAnother() {
        Tarry.TRACE.set(Map.of("traceparent", "mine"));
        same(sent(new Schedule("q"), null), Map.of("traceparent", "mine"));
        same(sent(new Schedule("q"), all -> all.put("traceparent", "hook's")), Map.of("traceparent", "hook's"));
        same(sent(new Schedule("q").attribute("traceparent", "own"), null), Map.of("traceparent", "own"));
        Tarry.TRACE.remove();
    }

    public static void aTokenIsNotSentInTheClearAndItsFileIsPrivate() throws IOException {
        Identity identity = new Identity();
        identity.token = "t";
        for (String local : List.of("ws://127.0.0.1:1", "ws://[::1]:1", "ws://localhost:1", "wss://shop.example:1")) same(identity.bearer(URI.create(local)), "t");
        same(fails(TarryException.class, () -> identity.bearer(URI.create("ws://shop.example:1"))).code(), "DENIED");
        Path file = Files.createTempDirectory("tarry-").resolve("token");
        identity.token = null;
        identity.tokenFile = file.toString();
        same(fails(TarryException.class, () -> identity.bearer(URI.create("wss://a:1"))).code(), "DENIED");
        for (String text : List.of("one\n", "two")) {
            Files.writeString(file, text);
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
            same(identity.bearer(URI.create("wss://a:1")), text.strip());
        }
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r-----"));
        truth(fails(TarryException.class, () -> identity.bearer(URI.create("wss://a:1"))).getMessage().contains("chmod 600"), file);
        Files.delete(file);
        Files.delete(file.getParent());
    }

    // ---- commits: the broker is a WebSocket server in this process

    private static List<String> keysOf(In commit) {
        return commit.messages(Wire.Commit.OPS).stream().map(op -> op.message(Wire.Op.SCHEDULE).text(Wire.Schedule.KEY)).toList();
    }

    private static Out accepted(In commit) {
        Out results = new Out();
        for (In op : commit.messages(Wire.Commit.OPS)) results.message(Wire.CommitReply.RESULTS, new Out().number(Wire.OpResult.OUTCOME, 1).number(Wire.OpResult.ID, 1));
        return new Out().message(Wire.Reply.COMMIT, results);
    }

    private static Broker.Answer refuses(String code, String message) {
        return commit -> new Out().number(Wire.Reply.CODE, Wire.CODES.indexOf(code)).text(Wire.Reply.MESSAGE, message);
    }

    private static final Broker.Answer LOST = commit -> null;
    private static final Broker.Answer SILENT = commit -> new Out();

    private static Tarry clientOf(Broker broker, long timeoutMs) {
        return Tarry.builder().urls(broker.url()).timeout(Duration.ofMillis(timeoutMs)).open();
    }

    public static void operationsThatComeTogetherShareACommit() throws Exception {
        try (Broker broker = new Broker(Tests::accepted); Tarry tarry = clientOf(broker, 20000)) {
            List<byte[]> op = List.of(new Schedule("q").operation(null));
            var futures = new ArrayList<java.util.concurrent.CompletableFuture<?>>();
            for (int count = 0; count < 1000; count++) futures.add(tarry.changes.submit(op, false, tarry.until(null)));
            for (var future : futures) future.join();
            truth(broker.commits().size() < 100, broker.commits().size());
        }
    }

    public static void aLostCommitIsRepeatedByteForByte() throws Exception { // ONCE-1
        try (Broker broker = new Broker(Tests::accepted, LOST, LOST, refuses("BUSY", ""), refuses("STOPPING", "")); Tarry tarry = clientOf(broker, 20000)) {
            tarry.schedule(new Schedule("q").key("k"));
            same(broker.commits().size(), 5);
            for (byte[] commit : broker.commits()) truth(Arrays.equals(commit, broker.commits().get(0)), "the same bytes");
        }
    }

    public static void whenAllWasRefusedNothingWasDone() throws Exception {
        Broker.Answer[] busy = new Broker.Answer[1000];
        Arrays.fill(busy, refuses("BUSY", "the disk is full"));
        try (Broker broker = new Broker(Tests::accepted, busy); Tarry tarry = clientOf(broker, 300)) {
            TarryException error;
            do { // at the end of the time a request may be under way, so the outcome is unknown
                error = fails(TarryException.class, () -> tarry.schedule(new Schedule("q")));
                truth(error.getMessage().contains("the disk is full"), error);
            } while (error instanceof TarryException.OutcomeUnknown);
            same(error.code(), "UNAVAILABLE");
            broker.forgetScript();
            tarry.schedule(new Schedule("q"));
            same(new In(broker.commits().get(broker.commits().size() - 1)).number(Wire.Commit.SEQUENCE), 1L); // the sequence was given back
        }
    }

    public static void anUnknownOutcomeIsCalledSoAndItsProducerIsLeft() throws Exception {
        try (Broker broker = new Broker(Tests::accepted, SILENT); Tarry tarry = clientOf(broker, 300)) {
            fails(TarryException.OutcomeUnknown.class, () -> tarry.schedule(new Schedule("q")));
            tarry.schedule(new Schedule("q"));
            List<Long> producers = broker.commits().stream().map(commit -> new In(commit).number(Wire.Commit.PRODUCER)).toList();
            same(producers, List.of(1L, 2L));
        }
    }

    public static void aForgottenProducerIsReplaced() throws Exception {
        try (Broker broker = new Broker(Tests::accepted, refuses("FORGOTTEN", "")); Tarry tarry = clientOf(broker, 20000)) {
            tarry.schedule(new Schedule("q"));
            same(broker.commits().size(), 2);
        }
        try (Broker broker = new Broker(Tests::accepted, LOST, refuses("FORGOTTEN", "")); Tarry tarry = clientOf(broker, 20000)) {
            fails(TarryException.OutcomeUnknown.class, () -> tarry.schedule(new Schedule("q")));
        }
    }

    public static void anOperationThatSpoilsTheRequestDoesNotHurtTheOthers() throws Exception {
        Broker.Answer spoilt = commit -> keysOf(commit).contains("bad") ? refuses("INVALID", "no").to(commit) : accepted(commit);
        try (Broker broker = new Broker(spoilt); Tarry tarry = clientOf(broker, 20000)) {
            Map<String, java.util.concurrent.CompletableFuture<List<Result>>> futures = new HashMap<>();
            for (String key : List.of("good", "bad", "fine"))
                futures.put(key, tarry.changes.submit(List.of(new Schedule("q").key(key).operation(null)), false, tarry.until(null)));
            truth(futures.get("good").join().get(0).ok() && futures.get("fine").join().get(0).ok(), "the others");
            fails(java.util.concurrent.CompletionException.class, () -> futures.get("bad").join());
        }
    }

    public static void acksDoNotWaitBehindRefusedSchedules() throws Exception {
        Broker.Answer full = commit -> commit.messages(Wire.Commit.OPS).get(0).has(Wire.Op.SCHEDULE) ? refuses("BUSY", "").to(commit) : accepted(commit);
        try (Broker broker = new Broker(full); Tarry tarry = clientOf(broker, 2000)) {
            var waiting = tarry.changes.submit(List.of(new Schedule("q").operation(null)), false, tarry.until(null));
            tarry.settles.submit(List.of(new Out().message(Wire.Op.ACK, new Out()).packed()), false, tarry.until(null)).join();
            truth(!waiting.isDone(), "the schedule waits");
            fails(java.util.concurrent.CompletionException.class, waiting::join);
        }
    }

    public static void anAtomicCommitIsAlone() throws Exception {
        try (Broker broker = new Broker(Tests::accepted); Tarry tarry = clientOf(broker, 20000)) {
            var before = tarry.changes.submit(List.of(new Schedule("q").operation(null)), false, tarry.until(null));
            tarry.scheduleMany(List.of(new Schedule("q"), new Schedule("q")), true);
            before.join();
            same(broker.commits().stream().map(commit -> new In(commit).flag(Wire.Commit.ATOMIC) + " " + keysOf(new In(commit)).size()).toList(),
                List.of("false 1", "true 2"));
        }
    }

    public static void main(String[] arguments) throws Exception {
        int passed = 0;
        for (Method method : Tests.class.getDeclaredMethods()) {
            if (!Modifier.isPublic(method.getModifiers()) || method.getName().equals("main")) continue;
            try {
                method.invoke(null);
            } catch (InvocationTargetException error) {
                System.out.println(method.getName());
                error.getCause().printStackTrace(System.out);
                System.exit(1);
            }
            passed++;
        }
        System.out.println(passed + " passed");
    }
}
