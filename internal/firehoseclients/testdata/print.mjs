// print writes one line of JSON: what a script tells the test. Links and bytes
// have the form that they have in the vectors: {"$link"} and {"$bytes"}.
export function print(line) {
	process.stdout.write(JSON.stringify(line, plain) + "\n");
}

// plain is a JSON replacer. It looks at the value itself, before toJSON.
function plain(key, value) {
	const raw = this[key];
	if (raw instanceof Uint8Array) {
		return { $bytes: Buffer.from(raw).toString("base64").replace(/=+$/, "") };
	}
	if (raw && typeof raw === "object" && raw.asCID === raw) {
		return { $link: raw.toString() };
	}
	return value;
}
