// The AWS SDK for Java against the server at the given address.
//
//     java -cp 'jars/*' Kinesis.java URL [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses a stream of its own. Bodies are CBOR,
// which this SDK speaks by default, but for the checks called json-…; KinesisClient speaks HTTP/1.1, KinesisAsyncClient HTTP/2.

import java.math.BigInteger;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.reactivestreams.Subscriber;
import org.reactivestreams.Subscription;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisClient;
import software.amazon.awssdk.services.kinesis.model.GetRecordsResponse;
import software.amazon.awssdk.services.kinesis.model.InvalidArgumentException;
import software.amazon.awssdk.services.kinesis.model.KinesisException;
import software.amazon.awssdk.services.kinesis.model.PutRecordResponse;
import software.amazon.awssdk.services.kinesis.model.PutRecordsRequestEntry;
import software.amazon.awssdk.services.kinesis.model.PutRecordsResponse;
import software.amazon.awssdk.services.kinesis.model.Record;
import software.amazon.awssdk.services.kinesis.model.ResourceInUseException;
import software.amazon.awssdk.services.kinesis.model.ResourceNotFoundException;
import software.amazon.awssdk.services.kinesis.model.Shard;
import software.amazon.awssdk.services.kinesis.model.ShardIteratorType;
import software.amazon.awssdk.services.kinesis.model.StartingPosition;
import software.amazon.awssdk.services.kinesis.model.StreamDescription;
import software.amazon.awssdk.services.kinesis.model.StreamStatus;
import software.amazon.awssdk.services.kinesis.model.SubscribeToShardEvent;
import software.amazon.awssdk.services.kinesis.model.SubscribeToShardEventStream;
import software.amazon.awssdk.services.kinesis.model.SubscribeToShardRequest;
import software.amazon.awssdk.services.kinesis.model.SubscribeToShardResponseHandler;

public class Kinesis {
    static final long DEADLINE_MS = 30_000;
    static final String SHARD = "shardId-000000000000";
    static final BigInteger HALF = BigInteger.TWO.pow(127);
    static final StartingPosition HORIZON = position(ShardIteratorType.TRIM_HORIZON, builder -> { });
    static String endpoint;
    static KinesisClient client;
    static KinesisAsyncClient async;

    interface Check { void run() throws Exception; }
    interface Scenario { void run(String stream, String arn) throws Exception; }

    public static void main(String[] arguments) throws Exception {
        endpoint = arguments[0];
        connect();
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("create-and-describe", on(2, Kinesis::createAndDescribe));
        checks.put("put-and-get", on(1, Kinesis::putAndGet));
        checks.put("bytes-of-every-value", on(1, Kinesis::bytesOfEveryValue));
        checks.put("list-shards", on(5, Kinesis::listShards));
        checks.put("errors", on(1, Kinesis::errors));
        checks.put("async-put-and-get", on(1, Kinesis::asyncPutAndGet));
        checks.put("subscribe", on(1, Kinesis::subscribe));
        checks.put("subscribe-positions", on(1, Kinesis::subscribePositions));
        checks.put("subscribe-goes-on", on(1, Kinesis::subscribeGoesOn));
        checks.put("subscribe-split", on(1, Kinesis::subscribeSplit));
        checks.put("subscribe-twice", on(1, Kinesis::subscribeTwice));
        checks.put("subscribe-deleted-stream", on(1, Kinesis::subscribeDeletedStream));
        checks.put("subscribe-errors", on(1, Kinesis::subscribeErrors));
        checks.put("subscribe-cancel", on(1, Kinesis::subscribeCancel));
        checks.put("five-consumers", on(1, Kinesis::fiveConsumers));
        checks.put("large-records", on(1, Kinesis::largeRecords));
        checks.put("json-put-and-get", asJson(on(1, Kinesis::putAndGet)));
        checks.put("json-errors", asJson(on(1, Kinesis::errors)));
        checks.put("json-subscribe", asJson(on(1, Kinesis::subscribe)));
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            if (!wanted.isEmpty() && !wanted.contains(check.getKey())) continue;
            try {
                check.getValue().run();
                System.out.println("\n=> ok " + check.getKey());
            } catch (Throwable failure) {
                System.out.println("\n=> failed " + check.getKey() + ": " + String.valueOf(failure).replace('\n', ' ')
                    + (failure.getCause() == null ? "" : " caused by " + failure.getCause()));
                if (System.getenv("TRACE") != null) failure.printStackTrace(System.out);
            }
        }
        System.exit(0);
    }

    static void connect() {
        StaticCredentialsProvider credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create("AKIAINTEROP", "secret"));
        client = KinesisClient.builder().endpointOverride(URI.create(endpoint)).region(Region.US_EAST_1)
            .credentialsProvider(credentials).build();
        async = KinesisAsyncClient.builder().endpointOverride(URI.create(endpoint)).region(Region.US_EAST_1)
            .credentialsProvider(credentials).build();
    }

    /** The same with bodies in JSON. */
    static Check asJson(Check check) {
        return () -> {
            System.setProperty("aws.cborEnabled", "false");
            connect();
            try {
                check.run();
            } finally {
                System.clearProperty("aws.cborEnabled");
                connect();
            }
        };
    }

    static Check on(int shards, Scenario scenario) {
        return () -> {
            String stream = "java-" + UUID.randomUUID().toString().substring(0, 12);
            client.createStream(request -> request.streamName(stream).shardCount(shards));
            client.waiter().waitUntilStreamExists(request -> request.streamName(stream));
            String arn = client.describeStreamSummary(request -> request.streamName(stream)).streamDescriptionSummary().streamARN();
            try {
                scenario.run(stream, arn);
            } finally {
                try {
                    client.deleteStream(request -> request.streamName(stream).enforceConsumerDeletion(true));
                } catch (ResourceNotFoundException gone) {
                    // by the check itself
                }
            }
        };
    }

    // --- the parts that checks are made of

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) throw new AssertionError("found " + found + ", expected " + expected);
    }

    static void that(boolean condition, String what) {
        if (!condition) throw new AssertionError(what);
    }

    static <E extends Throwable> E refused(Class<E> kind, Check check) throws Exception {
        try {
            check.run();
        } catch (ExecutionException failure) {
            if (kind.isInstance(failure.getCause())) return kind.cast(failure.getCause());
            throw failure;
        } catch (Exception failure) {
            if (kind.isInstance(failure)) return kind.cast(failure);
            throw failure;
        }
        throw new AssertionError(kind.getSimpleName() + " was expected");
    }

    static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(String::valueOf).collect(Collectors.toList());
    }

    static String text(Record record) { return record.data().asString(StandardCharsets.UTF_8); }

    static List<String> texts(List<Record> records) { return records.stream().map(Kinesis::text).collect(Collectors.toList()); }

    static PutRecordResponse put(String stream, String data) {
        return client.putRecord(request -> request.streamName(stream).partitionKey("key").data(SdkBytes.fromUtf8String(data)));
    }

    static PutRecordsResponse putAll(String stream, List<String> all) {
        List<PutRecordsRequestEntry> entries = all.stream()
            .map(data -> PutRecordsRequestEntry.builder().partitionKey(data).data(SdkBytes.fromUtf8String(data)).build())
            .collect(Collectors.toList());
        return client.putRecords(request -> request.streamName(stream).records(entries));
    }

    static String iterator(String stream, ShardIteratorType type, String number, Instant timestamp) {
        return client.getShardIterator(request -> request.streamName(stream).shardId(SHARD).shardIteratorType(type)
            .startingSequenceNumber(number).timestamp(timestamp)).shardIterator();
    }

    static GetRecordsResponse get(String iterator) { return client.getRecords(request -> request.shardIterator(iterator)); }

    static GetRecordsResponse all(String stream) { return get(iterator(stream, ShardIteratorType.TRIM_HORIZON, null, null)); }

    static String register(String arn, String name) {
        return client.registerStreamConsumer(request -> request.streamARN(arn).consumerName(name)).consumer().consumerARN();
    }

    static StartingPosition position(ShardIteratorType type, Consumer<StartingPosition.Builder> more) {
        return StartingPosition.builder().type(type).applyMutation(more).build();
    }

    /** One subscription, which asks for one event at a time. */
    static final class Events {
        static final Object END = new Object();
        final BlockingQueue<Object> arrived = new LinkedBlockingQueue<>();
        final List<Record> waiting = new ArrayList<>();
        final CompletableFuture<Subscription> subscribed = new CompletableFuture<>();
        final CompletableFuture<Void> whole;
        SubscribeToShardEvent last;

        Events(String consumer, String shard, StartingPosition position) throws Exception {
            SubscribeToShardRequest request = SubscribeToShardRequest.builder().consumerARN(consumer).shardId(shard)
                .startingPosition(position).build();
            SubscribeToShardResponseHandler handler = SubscribeToShardResponseHandler.builder()
                .onError(arrived::add)
                .onEventStream(publisher -> publisher.subscribe(new Subscriber<SubscribeToShardEventStream>() {
                    @Override public void onSubscribe(Subscription subscription) {
                        subscribed.complete(subscription);
                        subscription.request(1);
                    }
                    @Override public void onNext(SubscribeToShardEventStream event) {
                        arrived.add(event);
                        subscribed.join().request(1);
                    }
                    @Override public void onError(Throwable failure) { arrived.add(failure); }
                    @Override public void onComplete() { arrived.add(END); }
                }))
                .build();
            whole = async.subscribeToShard(request, handler);
            whole.whenComplete((nothing, failure) -> {
                if (failure != null) subscribed.completeExceptionally(failure.getCause() == null ? failure : failure.getCause());
            });
            subscribed.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
        }

        Events(String consumer, StartingPosition position) throws Exception { this(consumer, SHARD, position); }

        /** The next event, or null at the end. */
        SubscribeToShardEvent event() throws Exception {
            Object next = arrived.poll(DEADLINE_MS, TimeUnit.MILLISECONDS);
            if (next == null) throw new AssertionError("no event came");
            if (next == END) return null;
            if (next instanceof Throwable) throw new ExecutionException(cause((Throwable) next));
            last = (SubscribeToShardEvent) next;
            return last;
        }

        static Throwable cause(Throwable failure) {
            while (!(failure instanceof KinesisException) && failure.getCause() != null) failure = failure.getCause();
            return failure;
        }

        List<Record> records(int count) throws Exception {
            while (waiting.size() < count) {
                SubscribeToShardEvent event = event();
                if (event == null) throw new AssertionError("the subscription ended after " + waiting.size() + " of " + count);
                waiting.addAll(event.records());
            }
            List<Record> found = new ArrayList<>(waiting.subList(0, count));
            waiting.subList(0, count).clear();
            return found;
        }

        List<SubscribeToShardEvent> rest() throws Exception {
            List<SubscribeToShardEvent> events = new ArrayList<>();
            for (SubscribeToShardEvent event = event(); event != null; event = event()) events.add(event);
            return events;
        }
    }

    // --- the checks

    static void createAndDescribe(String stream, String arn) {
        StreamDescription description = client.describeStream(request -> request.streamName(stream)).streamDescription();
        equal(description.streamARN(), arn);
        equal(description.streamStatus(), StreamStatus.ACTIVE);
        equal(description.shards().stream().map(Shard::shardId).collect(Collectors.toList()), List.of(SHARD, "shardId-000000000001"));
        equal(description.shards().get(1).hashKeyRange().startingHashKey(), HALF.toString());
        long age_s = Instant.now().getEpochSecond() - description.streamCreationTimestamp().getEpochSecond();
        that(age_s >= -1 && age_s < 60, "made " + description.streamCreationTimestamp());
        that(client.listStreams(request -> request.limit(10_000)).streamNames().contains(stream), "the stream is not listed");
    }

    static void putAndGet(String stream, String arn) {
        Instant before = Instant.now().minusMillis(1);
        PutRecordResponse first = put(stream, "one");
        equal(first.shardId(), SHARD);
        PutRecordsResponse several = putAll(stream, List.of("two", "three"));
        equal(several.failedRecordCount(), 0);
        String latest = iterator(stream, ShardIteratorType.LATEST, null, null);
        GetRecordsResponse answer = all(stream);
        equal(texts(answer.records()), List.of("one", "two", "three"));
        equal(answer.records().get(0).sequenceNumber(), first.sequenceNumber());
        equal(answer.records().get(0).partitionKey(), "key");
        Instant arrived = answer.records().get(0).approximateArrivalTimestamp();
        that(!arrived.isBefore(before.minusMillis(1)) && !arrived.isAfter(Instant.now().plusMillis(1)), "arrived " + arrived);
        equal(answer.millisBehindLatest(), 0L);
        String number = several.records().get(0).sequenceNumber();
        equal(texts(get(iterator(stream, ShardIteratorType.AT_SEQUENCE_NUMBER, number, null)).records()), List.of("two", "three"));
        equal(texts(get(iterator(stream, ShardIteratorType.AFTER_SEQUENCE_NUMBER, number, null)).records()), List.of("three"));
        equal(get(iterator(stream, ShardIteratorType.AT_TIMESTAMP, null, before.minusSeconds(60))).records().size(), 3);
        put(stream, "four");
        equal(texts(get(latest).records()), List.of("four"));
    }

    static void bytesOfEveryValue(String stream, String arn) {
        byte[] every = new byte[256];
        for (int value = 0; value < 256; value++) every[value] = (byte) value;
        byte[] noise = new byte[900_000];
        new Random(7).nextBytes(noise);
        for (byte[] data : List.of(every, new byte[0], noise)) {
            client.putRecord(request -> request.streamName(stream).partitionKey("schlüssel ✓").data(SdkBytes.fromByteArray(data)));
            List<Record> records = all(stream).records();
            Record last = records.get(records.size() - 1);
            that(Arrays.equals(last.data().asByteArray(), data), "other bytes");
            equal(last.partitionKey(), "schlüssel ✓");
        }
    }

    static void listShards(String stream, String arn) {
        List<String> found = new ArrayList<>();
        var page = client.listShards(request -> request.streamName(stream).maxResults(2));
        while (true) {
            page.shards().forEach(shard -> found.add(shard.shardId()));
            String token = page.nextToken();
            if (token == null) break;
            page = client.listShards(request -> request.nextToken(token).maxResults(2));
        }
        equal(found, numbers(0, 5).stream().map(number -> "shardId-00000000000" + number).collect(Collectors.toList()));
    }

    static void errors(String stream, String arn) throws Exception {
        ResourceNotFoundException missing = refused(ResourceNotFoundException.class, () -> put("java-no-such-stream", "x"));
        that(missing.awsErrorDetails().errorMessage().matches("Stream java-no-such-stream under account \\d{12} not found\\."),
            missing.getMessage());
        refused(ResourceInUseException.class, () -> client.createStream(request -> request.streamName(stream).shardCount(1)));
        refused(InvalidArgumentException.class, () -> get("nonsense"));
        refused(ResourceNotFoundException.class, () -> client.getShardIterator(request -> request.streamName(stream)
            .shardId("shardId-000000000009").shardIteratorType(ShardIteratorType.LATEST)));
        KinesisException invalid = refused(KinesisException.class, () -> client.putRecord(request -> request.streamName(stream)
            .partitionKey("k".repeat(257)).data(SdkBytes.fromUtf8String("x"))));
        equal(invalid.awsErrorDetails().errorCode(), "ValidationException");
        equal(invalid.statusCode(), 400);
    }

    static void asyncPutAndGet(String stream, String arn) throws Exception {
        List<CompletableFuture<PutRecordResponse>> puts = new ArrayList<>();
        for (String data : numbers(0, 100)) {
            puts.add(async.putRecord(request -> request.streamName(stream).partitionKey(data).data(SdkBytes.fromUtf8String(data))));
        }
        for (CompletableFuture<PutRecordResponse> put : puts) put.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
        String iterator = iterator(stream, ShardIteratorType.TRIM_HORIZON, null, null);
        GetRecordsResponse answer = async.getRecords(request -> request.shardIterator(iterator)).get(DEADLINE_MS, TimeUnit.MILLISECONDS);
        equal(new HashSet<>(texts(answer.records())), new HashSet<>(numbers(0, 100)));
        refused(ResourceNotFoundException.class,
            () -> async.describeStream(request -> request.streamName("java-no-such-stream")).get(DEADLINE_MS, TimeUnit.MILLISECONDS));
    }

    static void subscribe(String stream, String arn) throws Exception {
        putAll(stream, numbers(0, 10));
        Events events = new Events(register(arn, "consumer"), HORIZON);
        equal(texts(events.records(10)), numbers(0, 10));
        for (String data : numbers(10, 30)) {
            String number = put(stream, data).sequenceNumber();
            Record record = events.records(1).get(0);
            equal(text(record), data);
            equal(record.sequenceNumber(), number);
            equal(record.partitionKey(), "key");
            long age_ms = Instant.now().toEpochMilli() - record.approximateArrivalTimestamp().toEpochMilli();
            that(age_ms > -1000 && age_ms < 60_000, "arrived " + record.approximateArrivalTimestamp());
        }
        equal(events.last.millisBehindLatest(), 0L);
        that(events.last.continuationSequenceNumber().matches("\\d+"), events.last.continuationSequenceNumber());
    }

    static void subscribePositions(String stream, String arn) throws Exception {
        String number = putAll(stream, numbers(0, 3)).records().get(1).sequenceNumber();
        Instant past = Instant.now().minusSeconds(3600);
        Events at = new Events(register(arn, "at"),
            position(ShardIteratorType.AT_SEQUENCE_NUMBER, from -> from.sequenceNumber(number)));
        Events after = new Events(register(arn, "after"),
            position(ShardIteratorType.AFTER_SEQUENCE_NUMBER, from -> from.sequenceNumber(number)));
        Events since = new Events(register(arn, "since"), position(ShardIteratorType.AT_TIMESTAMP, from -> from.timestamp(past)));
        Events latest = new Events(register(arn, "latest"), position(ShardIteratorType.LATEST, from -> { }));
        put(stream, "3");
        equal(texts(at.records(3)), numbers(1, 4));
        equal(texts(after.records(2)), numbers(2, 4));
        equal(texts(since.records(4)), numbers(0, 4));
        equal(texts(latest.records(1)), numbers(3, 4));
    }

    static void subscribeGoesOn(String stream, String arn) throws Exception {
        putAll(stream, numbers(0, 5));
        Events first = new Events(register(arn, "first"), HORIZON);
        equal(texts(first.records(5)), numbers(0, 5));
        String number = first.last.continuationSequenceNumber();
        putAll(stream, numbers(5, 8));
        Events second = new Events(register(arn, "second"),
            position(ShardIteratorType.AFTER_SEQUENCE_NUMBER, from -> from.sequenceNumber(number)));
        equal(texts(second.records(3)), numbers(5, 8));
    }

    static void subscribeSplit(String stream, String arn) throws Exception {
        String consumer = register(arn, "consumer");
        Events parent = new Events(consumer, HORIZON);
        putAll(stream, numbers(0, 20));
        equal(texts(parent.records(20)), numbers(0, 20));
        client.splitShard(request -> request.streamName(stream).shardToSplit(SHARD).newStartingHashKey(HALF.toString()));
        PutRecordsResponse later = putAll(stream, numbers(20, 60));
        List<SubscribeToShardEvent> events = parent.rest();
        SubscribeToShardEvent last = events.get(events.size() - 1);
        that(events.stream().allMatch(event -> event.records().isEmpty()), "records of the children came from their parent");
        equal(last.continuationSequenceNumber(), null);
        equal(last.childShards().stream().map(child -> child.shardId() + child.parentShards()).collect(Collectors.toList()),
            List.of("shardId-000000000001[" + SHARD + "]", "shardId-000000000002[" + SHARD + "]"));
        Set<String> found = new HashSet<>();
        for (String child : List.of("shardId-000000000001", "shardId-000000000002")) {
            int count = (int) later.records().stream().filter(entry -> entry.shardId().equals(child)).count();
            found.addAll(texts(new Events(consumer, child, HORIZON).records(count)));
        }
        equal(found, new HashSet<>(numbers(20, 60)));
    }

    static void subscribeTwice(String stream, String arn) throws Exception {
        String consumer = register(arn, "consumer");
        Events first = new Events(consumer, HORIZON);
        ResourceInUseException busy = refused(ResourceInUseException.class, () -> new Events(consumer, HORIZON));
        that(busy.awsErrorDetails().errorMessage().startsWith("Another active subscription exists for this consumer: "),
            busy.getMessage());
        put(stream, "still there");
        equal(texts(first.records(1)), List.of("still there"));
    }

    static void subscribeDeletedStream(String stream, String arn) throws Exception {
        Events events = new Events(register(arn, "consumer"), HORIZON);
        client.deleteStream(request -> request.streamName(stream).enforceConsumerDeletion(true));
        refused(ResourceNotFoundException.class, events::rest);
    }

    static void subscribeErrors(String stream, String arn) throws Exception {
        String consumer = register(arn, "consumer");
        refused(ResourceNotFoundException.class, () -> new Events(arn + "/consumer/nobody:1700000000", HORIZON));
        refused(ResourceNotFoundException.class, () -> new Events(consumer, "shardId-000000000007", HORIZON));
        refused(InvalidArgumentException.class, () -> new Events(consumer,
            position(ShardIteratorType.AT_SEQUENCE_NUMBER, from -> from.sequenceNumber("123"))));
        put(stream, "x");
        equal(texts(new Events(consumer, HORIZON).records(1)), List.of("x"));
    }

    static void subscribeCancel(String stream, String arn) throws Exception {
        Events events = new Events(register(arn, "consumer"), HORIZON);
        put(stream, "one");
        equal(texts(events.records(1)), List.of("one"));
        events.subscribed.join().cancel();
        put(stream, "two");
        asyncPutAndGetAgain(stream);
    }

    /** The connection that a subscription was cancelled on is still of use. */
    static void asyncPutAndGetAgain(String stream) throws Exception {
        String iterator = iterator(stream, ShardIteratorType.TRIM_HORIZON, null, null);
        GetRecordsResponse answer = async.getRecords(request -> request.shardIterator(iterator)).get(DEADLINE_MS, TimeUnit.MILLISECONDS);
        equal(texts(answer.records()), List.of("one", "two"));
    }

    static void fiveConsumers(String stream, String arn) throws Exception {
        List<Events> readers = new ArrayList<>();
        for (int number = 0; number < 5; number++) readers.add(new Events(register(arn, "c" + number), HORIZON));
        for (int begin = 0; begin < 400; begin += 100) putAll(stream, numbers(begin, begin + 100));
        for (Events reader : readers) equal(texts(reader.records(400)), numbers(0, 400));
    }

    static void largeRecords(String stream, String arn) throws Exception {
        Random noise = new Random(11);
        List<SdkBytes> large = new ArrayList<>();
        for (int number = 0; number < 12; number++) {
            byte[] data = new byte[1_000_000];
            noise.nextBytes(data);
            large.add(SdkBytes.fromByteArray(data));
            client.putRecord(request -> request.streamName(stream).partitionKey("k").data(large.get(large.size() - 1)));
        }
        List<Record> records = new Events(register(arn, "consumer"), HORIZON).records(12);
        for (int number = 0; number < 12; number++) that(records.get(number).data().equals(large.get(number)), "other bytes");
    }
}
