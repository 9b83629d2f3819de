// Follows a relay with @atproto/sync, which checks each frame against the
// lexicon and each commit's signature, and connects again by itself.
//
// Argument: {"service": "ws://...", "cursor": 5 or absent, "did", "handle",
// "didKey", "didDoc"}
import { Firehose, MemoryRunner } from "@atproto/sync";
import { print } from "./print.mjs";

const { service, cursor, did, handle, didKey, didDoc } = JSON.parse(process.argv[2]);

// idResolver knows one account and asks no network.
const idResolver = {
	did: {
		resolve: async (asked) => (asked === did ? didDoc : null),
		resolveAtprotoKey: async (asked) => {
			if (asked !== did) throw new Error(`no key of ${asked}`);
			return didKey;
		},
	},
	handle: { resolve: async (asked) => (asked === handle ? did : undefined) },
};

const firehose = new Firehose({
	service,
	idResolver,
	runner: new MemoryRunner({ startCursor: cursor, setCursor: (seq) => print({ event: "cursor", seq }) }),
	handleEvent: ({ event, seq, did, time, rev, commit, cid, uri, record, handle, active, status }) => {
		const message = { event, seq, did, time, rev, commit, cid, uri: uri?.toString(), record, handle, active, status };
		print({ event: "handled", seq, message });
	},
	onError: (error) => {
		const { cause } = error;
		print({ event: "error", text: error.message, cause: cause?.message, name: cause?.error, code: cause?.code });
	},
	onReconnectError: (error) => print({ event: "lost", code: error.code }),
	onReconnect: () => print({ event: "again" }),
	subscriptionReconnectDelay: 300,
	maxReconnectSeconds: 1,
});

// What it has decoded and validated is told before its runner sorts it by
// account, after which there is no order over all.
const stream = firehose.sub;
firehose.sub = {
	async *[Symbol.asyncIterator]() {
		for await (const message of stream) {
			print({ event: "message", message });
			yield message;
		}
	},
};

await firehose.start();
// Only a clean end of the connection leads here: then it does not go on.
print({ event: "ended" });
