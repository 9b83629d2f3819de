// Judges frames: each is read with @ipld/dag-cbor and written again, which must
// give the same bytes, and read with the Frame of @atproto/xrpc-server.
//
// Argument: {"url": "ws://..."} for the frames of a stream, or {"hex": [...]}.
import * as cbor from "@ipld/dag-cbor";
import { Frame } from "@atproto/xrpc-server";
import WebSocket from "ws";
import { print } from "./print.mjs";

const { url, hex } = JSON.parse(process.argv[2]);

// split finds where the header ends: dag-cbor reads exactly one value, so that
// only one beginning of a frame is one.
function split(frame) {
	for (let end = 1; end < Math.min(frame.length, 256); end++) {
		try {
			return [cbor.decode(frame.subarray(0, end)), cbor.decode(frame.subarray(end))];
		} catch {
			// not here
		}
	}
	throw new Error("not two values");
}

function judge(frame) {
	const line = { event: "frame", hex: Buffer.from(frame).toString("hex") };
	try {
		const [header, body] = split(frame);
		line.header = header;
		line.body = body;
		line.again = Buffer.concat([cbor.encode(header), cbor.encode(body)]).toString("hex");
	} catch (error) {
		line.fault = error.message;
	}
	try {
		const { header, body } = Frame.fromBytes(frame);
		line.xrpc = { header, body };
	} catch (error) {
		line.xrpcFault = error.message;
	}
	print(line);
}

if (hex) {
	for (const text of hex) judge(Buffer.from(text, "hex"));
	print({ event: "ended" });
} else {
	const socket = new WebSocket(url);
	socket.on("upgrade", ({ headers }) => {
		print({
			event: "upgrade",
			server: headers.server ?? "",
			protocol: headers["sec-websocket-protocol"] ?? "",
			extensions: headers["sec-websocket-extensions"] ?? "",
		});
	});
	socket.on("unexpected-response", (_, { statusCode }) => {
		print({ event: "refused", code: statusCode });
		process.exit();
	});
	socket.on("message", (data, isBinary) => (isBinary ? judge(data) : print({ event: "text" })));
	socket.on("error", (error) => print({ event: "error", text: error.message }));
	socket.on("close", (code, reason) => print({ event: "closed", code, reason: reason.toString() }));
}
