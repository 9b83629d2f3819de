// Follows a relay with @skyware/firehose, and tells of each of its events. When
// the connection ends it makes a new client at the cursor that it has reached,
// as an application does: the client itself never opens a second socket.
//
// Argument: {"relay": "ws://...", "cursor": "", "resume": true}
import { Firehose } from "@skyware/firehose";
import WebSocket from "ws";
import { print } from "./print.mjs";

const { relay, cursor, resume } = JSON.parse(process.argv[2]);
const pauseMs = 100;

function follow(cursor) {
	const firehose = new Firehose({ relay, ws: WebSocket, cursor, autoReconnect: false });
	for (const name of ["commit", "sync", "identity", "account", "info", "unknown"]) {
		firehose.on(name, (message) => print({ event: name, message }));
	}
	firehose.on("open", () => print({ event: "open" }));
	firehose.on("error", ({ error }) => print({ event: "error", text: error.message }));
	// Its own close event has no code: that is asked of the socket.
	firehose.ws.addEventListener("close", ({ code, reason }) => print({ event: "closed", code, reason }));
	firehose.on("close", () => {
		// Messages that came before the end are still being read by promises: the
		// cursor is taken when they are done.
		setTimeout(() => {
			print({ event: "close", cursor: firehose.cursor });
			if (resume) follow(firehose.cursor);
		}, pauseMs);
	});
	firehose.on("websocketError", () => {}); // a close follows
	firehose.start();
}

follow(cursor);
