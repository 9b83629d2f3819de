// run plays one session of the aep-0.1 binding, over as many connections as it
// takes. It subscribes if there is a filter, from the last cursor that it has
// seen on, acknowledges what it is sent, and emits events until each is
// acknowledged: after a reconnect those again that are not.
//
// Settings: {"url", "protocols", "session", "filter", "emit": [event], "resume"}
const pauseMs = 50;

export function run(WebSocket, { url, protocols, session, filter, emit, resume }, print) {
	let cursor = filter?.from_cursor;
	let pending = emit ?? [];

	function connect() {
		const socket = new WebSocket(url, protocols);
		const send = (type, payload) => socket.send(JSON.stringify({ type, payload }));
		const emitPending = () => {
			for (const event of pending) socket.send(JSON.stringify(event));
		};
		const take = (message) => {
			const { type, id, payload, delivery } = message;
			if (type === "session.ready") {
				if (filter) send("subscription.requested", { ...filter, from_cursor: cursor });
				else emitPending();
			} else if (type === "subscription.created") {
				emitPending();
			} else if (type === "event.acknowledged") {
				pending = pending.filter((event) => event.id !== payload.acknowledged_event_id);
			} else if (delivery) {
				cursor = delivery.cursor;
				if (delivery.mode !== "best_effort") {
					send("event.acknowledged", { acknowledged_event_id: id, cursor, subscription_id: delivery.subscription_id });
				}
			}
			if (type !== "session.heartbeat") print({ event: "message", message });
		};
		socket.onopen = () => {
			print({ event: "open", protocol: socket.protocol, extensions: socket.extensions });
			send("session.opened", { session_id: session });
		};
		socket.onmessage = ({ data }) => {
			if (typeof data === "string") take(JSON.parse(data));
			else print({ event: "binary" });
		};
		// A close follows each error. Only Node says what it was.
		socket.onerror = ({ message }) => message && print({ event: "error", text: message });
		socket.onclose = ({ code, reason }) => {
			print({ event: "closed", code, reason });
			if (resume) setTimeout(connect, pauseMs);
		};
	}

	connect();
}
