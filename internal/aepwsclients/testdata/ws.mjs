import WebSocket from "ws";
import { run } from "./agent.mjs";

run(WebSocket, JSON.parse(process.argv[2]), (line) => process.stdout.write(JSON.stringify(line) + "\n"));
