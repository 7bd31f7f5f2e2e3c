// The AWS SDK for JavaScript against the server at the given address.
//
//     node kinesis.mjs URL [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses a stream of its own. The client speaks
// HTTP/2 with prior knowledge, which is what it does by default; `over-http-1` speaks HTTP/1.1.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import {
  CreateStreamCommand,
  DeleteStreamCommand,
  DeregisterStreamConsumerCommand,
  DescribeStreamCommand,
  DescribeStreamSummaryCommand,
  GetRecordsCommand,
  GetShardIteratorCommand,
  KinesisClient,
  ListShardsCommand,
  ListStreamsCommand,
  MergeShardsCommand,
  PutRecordCommand,
  PutRecordsCommand,
  RegisterStreamConsumerCommand,
  SplitShardCommand,
  SubscribeToShardCommand,
} from "@aws-sdk/client-kinesis";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const DEADLINE_MS = 30_000;
const [endpoint, ...wanted] = process.argv.slice(2);
const credentials = { accessKeyId: "AKIAINTEROP", secretAccessKey: "secret" };
const options = { endpoint, region: "us-east-1", credentials, maxAttempts: 1 };
const client = new KinesisClient(options);
const SHARD = "shardId-000000000000";

// --- the parts that checks are made of

const text = (bytes) => Buffer.from(bytes).toString();
const dataOf = (records) => records.map((record) => text(record.Data));
const numbers = (from, to) => Array.from({ length: to - from }, (_, index) => String(from + index));
const half = (2n ** 127n).toString();

async function inTime(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited too long for ${what}`)), DEADLINE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

async function withStream(shards, body) {
  const StreamName = `js-${randomBytes(6).toString("hex")}`;
  await client.send(new CreateStreamCommand({ StreamName, ShardCount: shards }));
  for (;;) {
    const { StreamDescriptionSummary: summary } = await client.send(new DescribeStreamSummaryCommand({ StreamName }));
    if (summary.StreamStatus === "ACTIVE") {
      try {
        await body(StreamName, summary.StreamARN);
      } finally {
        await client
          .send(new DeleteStreamCommand({ StreamName, EnforceConsumerDeletion: true }))
          .catch((error) => assert.equal(error.name, "ResourceNotFoundException"));
      }
      return;
    }
  }
}

const put = (StreamName, data, key = "key", more = {}) =>
  client.send(new PutRecordCommand({ StreamName, Data: Buffer.from(data), PartitionKey: key, ...more }));

const putAll = (StreamName, all) =>
  client.send(
    new PutRecordsCommand({ StreamName, Records: all.map((data) => ({ Data: Buffer.from(data), PartitionKey: data })) }),
  );

async function iterator(StreamName, ShardIteratorType, more = {}) {
  const asked = new GetShardIteratorCommand({ StreamName, ShardId: SHARD, ShardIteratorType, ...more });
  return (await client.send(asked)).ShardIterator;
}

async function drain(StreamName, ShardIteratorType, more = {}) {
  const answer = await client.send(new GetRecordsCommand({ ShardIterator: await iterator(StreamName, ShardIteratorType, more) }));
  return dataOf(answer.Records);
}

async function register(StreamARN, ConsumerName = "consumer") {
  return (await client.send(new RegisterStreamConsumerCommand({ StreamARN, ConsumerName }))).Consumer.ConsumerARN;
}

/** One subscription: `records(n)` waits for so many, `rest()` for all events up to the end. */
class Subscription {
  static async open(ConsumerARN, StartingPosition, { ShardId = SHARD, by = client, abortSignal } = {}) {
    const asked = new SubscribeToShardCommand({ ConsumerARN, ShardId, StartingPosition });
    const answer = await inTime(by.send(asked, { abortSignal }), "the subscription");
    return new Subscription(answer.EventStream[Symbol.asyncIterator]());
  }

  constructor(events) {
    this.events = events;
    this.waiting = [];
  }

  /** The next event, or undefined at the end. */
  async event() {
    const { done, value } = await inTime(this.events.next(), "an event");
    if (done) return undefined;
    this.last = value.SubscribeToShardEvent;
    return this.last;
  }

  async records(count) {
    const found = this.waiting;
    while (found.length < count) {
      const event = await this.event();
      if (event === undefined) throw new Error(`the subscription ended after ${found.length} of ${count} records`);
      found.push(...event.Records);
    }
    this.waiting = found.splice(count);
    return found;
  }

  async rest() {
    const events = [];
    for (let event = await this.event(); event !== undefined; event = await this.event()) events.push(event);
    return events;
  }
}

const horizon = { Type: "TRIM_HORIZON" };

async function refused(promise, name, message) {
  const error = await inTime(
    promise.then(
      () => assert.fail(`${name} was expected`),
      (error) => error,
    ),
    name,
  );
  assert.equal(error.name, name, String(error));
  if (message !== undefined) assert.match(error.message, message);
  return error;
}

// --- the checks

const checks = {
  async "create-and-describe"() {
    await withStream(2, async (StreamName, StreamARN) => {
      const { StreamDescription: description } = await client.send(new DescribeStreamCommand({ StreamName }));
      assert.equal(description.StreamARN, StreamARN);
      assert.deepEqual(
        description.Shards.map((shard) => [shard.ShardId, shard.HashKeyRange]),
        [
          [SHARD, { StartingHashKey: "0", EndingHashKey: (2n ** 127n - 1n).toString() }],
          ["shardId-000000000001", { StartingHashKey: half, EndingHashKey: (2n ** 128n - 1n).toString() }],
        ],
      );
      assert.ok(description.StreamCreationTimestamp instanceof Date);
      const listed = await client.send(new ListStreamsCommand({ Limit: 10_000 }));
      assert.ok(listed.StreamNames.includes(StreamName));
    });
  },

  async "put-and-get"() {
    await withStream(1, async (StreamName) => {
      const before = new Date();
      const first = await put(StreamName, "one", "schlüssel ✓");
      assert.equal(first.ShardId, SHARD);
      const several = await putAll(StreamName, ["two", "three"]);
      assert.equal(several.FailedRecordCount, 0);
      const latest = await iterator(StreamName, "LATEST");
      const answer = await client.send(new GetRecordsCommand({ ShardIterator: await iterator(StreamName, "TRIM_HORIZON") }));
      assert.deepEqual(dataOf(answer.Records), ["one", "two", "three"]);
      assert.equal(answer.Records[0].PartitionKey, "schlüssel ✓");
      assert.equal(answer.Records[0].SequenceNumber, first.SequenceNumber);
      assert.ok(answer.Records[0].ApproximateArrivalTimestamp >= new Date(before - 1));
      assert.equal(answer.MillisBehindLatest, 0);
      const number = { StartingSequenceNumber: several.Records[0].SequenceNumber };
      assert.deepEqual(await drain(StreamName, "AT_SEQUENCE_NUMBER", number), ["two", "three"]);
      assert.deepEqual(await drain(StreamName, "AFTER_SEQUENCE_NUMBER", number), ["three"]);
      assert.deepEqual(await drain(StreamName, "AT_TIMESTAMP", { Timestamp: new Date(0) }), ["one", "two", "three"]);
      await put(StreamName, "four");
      assert.deepEqual(dataOf((await client.send(new GetRecordsCommand({ ShardIterator: latest }))).Records), ["four"]);
    });
  },

  async "bytes-of-every-value"() {
    await withStream(1, async (StreamName) => {
      const all = Buffer.from(Array.from({ length: 256 }, (_, value) => value));
      for (const Data of [all, Buffer.alloc(0), randomBytes(900_000)]) {
        await client.send(new PutRecordCommand({ StreamName, Data, PartitionKey: "k" }));
        const [record] = (await client.send(new GetRecordsCommand({ ShardIterator: await iterator(StreamName, "TRIM_HORIZON") })))
          .Records.slice(-1);
        assert.ok(Buffer.from(record.Data).equals(Data));
      }
    });
  },

  async "list-shards"() {
    await withStream(5, async (StreamName) => {
      const found = [];
      let asked = { StreamName, MaxResults: 2 };
      while (asked !== undefined) {
        const page = await client.send(new ListShardsCommand(asked));
        assert.ok(page.Shards.length <= 2);
        found.push(...page.Shards.map((shard) => shard.ShardId));
        asked = page.NextToken && { NextToken: page.NextToken, MaxResults: 2 };
      }
      assert.deepEqual(found, numbers(0, 5).map((number) => `shardId-00000000000${number}`));
    });
  },

  async errors() {
    const nowhere = "js-no-such-stream";
    await refused(put(nowhere, "x"), "ResourceNotFoundException", /^Stream js-no-such-stream under account \d{12} not found\.$/);
    await withStream(1, async (StreamName) => {
      await refused(client.send(new CreateStreamCommand({ StreamName, ShardCount: 1 })), "ResourceInUseException", /already exists/);
      await refused(client.send(new GetRecordsCommand({ ShardIterator: "nonsense" })), "InvalidArgumentException");
      await refused(iterator(StreamName, "AT_SEQUENCE_NUMBER", { StartingSequenceNumber: "12x" }), "ValidationException");
      await refused(
        iterator(StreamName, "TRIM_HORIZON", { ShardId: "shardId-000000000009" }),
        "ResourceNotFoundException",
        /shardId-000000000009 in stream/,
      );
      await refused(put(StreamName, "x", "k".repeat(257)), "ValidationException", /less than or equal to 256/);
    });
  },

  async subscribe() {
    await withStream(1, async (StreamName, StreamARN) => {
      await putAll(StreamName, numbers(0, 10));
      const subscription = await Subscription.open(await register(StreamARN), horizon);
      const records = await subscription.records(10);
      assert.deepEqual(dataOf(records), numbers(0, 10));
      assert.deepEqual(
        records.map((record) => record.PartitionKey),
        numbers(0, 10),
      );
      for (let number = 10; number < 30; number++) {
        const { SequenceNumber } = await put(StreamName, String(number));
        const [record] = await subscription.records(1);
        assert.equal(text(record.Data), String(number));
        assert.equal(record.SequenceNumber, SequenceNumber);
        assert.ok(record.ApproximateArrivalTimestamp instanceof Date);
      }
      assert.equal(subscription.last.MillisBehindLatest, 0);
      assert.match(subscription.last.ContinuationSequenceNumber, /^\d+$/);
    });
  },

  async "subscribe-positions"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const answer = await putAll(StreamName, ["0", "1", "2"]);
      const SequenceNumber = answer.Records[1].SequenceNumber;
      const from = async (name, position) => Subscription.open(await register(StreamARN, name), position);
      const at = await from("at", { Type: "AT_SEQUENCE_NUMBER", SequenceNumber });
      const after = await from("after", { Type: "AFTER_SEQUENCE_NUMBER", SequenceNumber });
      const past = await from("past", { Type: "AT_TIMESTAMP", Timestamp: new Date(Date.now() - 3_600_000) });
      const latest = await from("latest", { Type: "LATEST" });
      await put(StreamName, "3");
      assert.deepEqual(dataOf(await at.records(3)), ["1", "2", "3"]);
      assert.deepEqual(dataOf(await after.records(2)), ["2", "3"]);
      assert.deepEqual(dataOf(await past.records(4)), ["0", "1", "2", "3"]);
      assert.deepEqual(dataOf(await latest.records(1)), ["3"]);
    });
  },

  async "subscribe-goes-on"() {
    await withStream(1, async (StreamName, StreamARN) => {
      await putAll(StreamName, numbers(0, 5));
      const first = await Subscription.open(await register(StreamARN, "first"), horizon);
      assert.deepEqual(dataOf(await first.records(5)), numbers(0, 5));
      const SequenceNumber = first.last.ContinuationSequenceNumber;
      await putAll(StreamName, numbers(5, 8));
      const position = { Type: "AFTER_SEQUENCE_NUMBER", SequenceNumber };
      const second = await Subscription.open(await register(StreamARN, "second"), position);
      assert.deepEqual(dataOf(await second.records(3)), numbers(5, 8));
    });
  },

  async "subscribe-split"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const consumer = await register(StreamARN);
      const parent = await Subscription.open(consumer, horizon);
      await putAll(StreamName, numbers(0, 20));
      assert.deepEqual(dataOf(await parent.records(20)), numbers(0, 20));
      await client.send(new SplitShardCommand({ StreamName, ShardToSplit: SHARD, NewStartingHashKey: half }));
      await putAll(StreamName, numbers(20, 60));
      const events = await parent.rest();
      const last = events.at(-1);
      assert.deepEqual(events.flatMap((event) => event.Records), []);
      assert.equal(last.ContinuationSequenceNumber, undefined);
      assert.deepEqual(
        last.ChildShards.map((child) => [child.ShardId, child.ParentShards, child.HashKeyRange.StartingHashKey]),
        [
          ["shardId-000000000001", [SHARD], "0"],
          ["shardId-000000000002", [SHARD], half],
        ],
      );
      const children = [];
      for (const { ShardId } of last.ChildShards) children.push(await Subscription.open(consumer, horizon, { ShardId }));
      const found = [];
      await Promise.all(
        children.map(async (child) => {
          while (found.length < 40) found.push(...(await child.event()).Records);
        }).map((reading) => Promise.race([reading, inTime(until(() => found.length === 40), "the children's records")])),
      );
      assert.deepEqual(
        dataOf(found).sort((a, b) => a - b),
        numbers(20, 60),
      );
    });
  },

  async "subscribe-merge"() {
    await withStream(2, async (StreamName, StreamARN) => {
      const consumer = await register(StreamARN);
      const ends = numbers(0, 2).map((number) => `shardId-00000000000${number}`);
      const parents = await Promise.all(ends.map((ShardId) => Subscription.open(consumer, horizon, { ShardId })));
      await client.send(new MergeShardsCommand({ StreamName, ShardToMerge: ends[0], AdjacentShardToMerge: ends[1] }));
      for (const parent of parents) {
        const { ChildShards } = (await parent.rest()).at(-1);
        assert.deepEqual(
          ChildShards.map((child) => [child.ShardId, child.ParentShards]),
          [["shardId-000000000002", ends]],
        );
      }
    });
  },

  async "subscribe-twice"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const consumer = await register(StreamARN);
      const first = await Subscription.open(consumer, horizon);
      await refused(
        Subscription.open(consumer, horizon),
        "ResourceInUseException",
        /^Another active subscription exists for this consumer: \d{12}:js-[0-9a-f]+:shardId-000000000000:consumer$/,
      );
      await put(StreamName, "still there");
      assert.deepEqual(dataOf(await first.records(1)), ["still there"]);
    });
  },

  async "subscribe-deleted-stream"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const subscription = await Subscription.open(await register(StreamARN), horizon);
      await client.send(new DeleteStreamCommand({ StreamName, EnforceConsumerDeletion: true }));
      const error = await refused(subscription.rest(), "ResourceNotFoundException");
      assert.match(error.message, /not found/);
    });
  },

  async "subscribe-deregistered"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const ConsumerARN = await register(StreamARN);
      const subscription = await Subscription.open(ConsumerARN, horizon);
      await client.send(new DeregisterStreamConsumerCommand({ ConsumerARN }));
      await refused(subscription.rest(), "ResourceNotFoundException");
    });
  },

  async "subscribe-errors"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const consumer = await register(StreamARN);
      const { SequenceNumber } = await put(StreamName, "x");
      const open = (position, more) => Subscription.open(consumer, position, more);
      const nobody = `${StreamARN}/consumer/nobody:1700000000`;
      await refused(Subscription.open(nobody, horizon), "ResourceNotFoundException");
      await refused(open(horizon, { ShardId: "shardId-000000000007" }), "ResourceNotFoundException", /shardId-000000000007/);
      await refused(open({ Type: "AT_SEQUENCE_NUMBER", SequenceNumber: `${SequenceNumber}1` }), "InvalidArgumentException");
      await refused(open({ Type: "AT_SEQUENCE_NUMBER" }), "InvalidArgumentException");
      await refused(open({ Type: "SOMEWHERE" }), "ValidationException", /SOMEWHERE|startingPosition/i);
      assert.deepEqual(dataOf(await (await open(horizon)).records(1)), ["x"]); // none of these counted as a subscription
    });
  },

  async "subscribe-ends"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const abort = new AbortController();
      const consumer = await register(StreamARN);
      const subscription = await Subscription.open(consumer, horizon, { abortSignal: abort.signal });
      await put(StreamName, "one");
      assert.deepEqual(dataOf(await subscription.records(1)), ["one"]);
      abort.abort();
      await subscription.events.return();
      await put(StreamName, "two"); // the connection is still of use
      assert.deepEqual(await drain(StreamName, "TRIM_HORIZON"), ["one", "two"]);
    });
  },

  async "five-consumers"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const readers = await Promise.all(
        numbers(0, 5).map(async (number) => Subscription.open(await register(StreamARN, `c${number}`), horizon)),
      );
      for (let begin = 0; begin < 400; begin += 100) await putAll(StreamName, numbers(begin, begin + 100));
      for (const reader of readers) assert.deepEqual(dataOf(await reader.records(400)), numbers(0, 400));
    });
  },

  async "many-shards-on-one-connection"() {
    await withStream(20, async (StreamName, StreamARN) => {
      const consumer = await register(StreamARN);
      const { Shards } = await client.send(new ListShardsCommand({ StreamName }));
      const readers = await Promise.all(Shards.map(({ ShardId }) => Subscription.open(consumer, horizon, { ShardId })));
      for (const { HashKeyRange } of Shards) {
        await put(StreamName, HashKeyRange.StartingHashKey, "k", { ExplicitHashKey: HashKeyRange.StartingHashKey });
      }
      for (const [index, reader] of readers.entries()) {
        assert.deepEqual(dataOf(await reader.records(1)), [Shards[index].HashKeyRange.StartingHashKey]);
      }
    });
  },

  async "large-records"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const large = Array.from({ length: 12 }, () => randomBytes(1_000_000));
      for (const Data of large) await client.send(new PutRecordCommand({ StreamName, Data, PartitionKey: "k" }));
      const subscription = await Subscription.open(await register(StreamARN), horizon);
      const records = await subscription.records(12);
      records.forEach((record, index) => assert.ok(Buffer.from(record.Data).equals(large[index])));
    });
  },

  async "slow-reader"() {
    await withStream(1, async (StreamName, StreamARN) => {
      const slow = await Subscription.open(await register(StreamARN, "slow"), horizon);
      const quick = await Subscription.open(await register(StreamARN, "quick"), horizon); // on the same connection
      const large = Array.from({ length: 30 }, () => randomBytes(900_000));
      for (const Data of large) {
        await client.send(new PutRecordCommand({ StreamName, Data, PartitionKey: "k" }));
        assert.ok(Buffer.from((await quick.records(1))[0].Data).equals(Data));
      }
      const records = await slow.records(30);
      records.forEach((record, index) => assert.ok(Buffer.from(record.Data).equals(large[index])));
    });
  },

  async "over-http-1"() {
    const plain = new KinesisClient({ ...options, requestHandler: new NodeHttpHandler() });
    await withStream(1, async (StreamName, StreamARN) => {
      const subscription = await Subscription.open(await register(StreamARN), horizon, { by: plain });
      for (const data of numbers(0, 10)) {
        await put(StreamName, data);
        assert.deepEqual(dataOf(await subscription.records(1)), [data]);
      }
      await client.send(new SplitShardCommand({ StreamName, ShardToSplit: SHARD, NewStartingHashKey: half }));
      assert.equal((await subscription.rest()).at(-1).ChildShards.length, 2);
    });
    plain.destroy();
  },
};

async function until(condition) {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

for (const [name, check] of Object.entries(checks)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  try {
    await check();
    console.log(`\n=> ok ${name}`);
  } catch (error) {
    console.log(`\n=> failed ${name}: ${String(error).replaceAll("\n", " ").slice(0, 2000)}`);
    if (process.env.TRACE) console.log(error);
  }
}
client.destroy();
process.exit(0);
