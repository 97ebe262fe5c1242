/**
 * A device that answers with what a real one answered (`test/fixtures/onvif`, one reply a line, without envelopes). It knows no user.
 *
 * Invariants
 * 1. Answers are the recorded ones, word for word. Where an operation was recorded once a profile, each gets its own by the order in
 *    which profiles are listed.
 * 2. `GetVideoEncoderConfigurations`, which was recorded one by one, is made of those, and sources and audio encoders of the profiles
 *    that hold them; what was not recorded is not supported.
 * 3. A fault was recorded behind a comment that names the operation.
 */
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { readRequest, reply, unsupported } from "./soap.ts"

export interface RecordedDevice {
  readonly host: string
  readonly port: number
  readonly close: () => Promise<void>
}

const fixtures = join(import.meta.dirname, "..", "fixtures", "onvif")

export const recordedReplies = (name: string): ReadonlyMap<string, ReadonlyArray<string>> => {
  const lines = readFileSync(join(fixtures, `${name}.xml`), "utf8").trim().split("\n")
  return Map.groupBy(lines, (line) => /^<!--(\w+)-->/.exec(line)?.[1] ?? /^<(\w+)Response/.exec(line)?.[1] ?? "")
}

/** Configurations that were recorded as parts of profiles alone, each once. */
const parts: Readonly<Record<string, string>> = {
  GetVideoSourceConfigurations: "VideoSourceConfiguration",
  GetAudioSourceConfigurations: "AudioSourceConfiguration",
  GetAudioEncoderConfigurations: "AudioEncoderConfiguration",
}
const partsOf = (replies: ReadonlyMap<string, ReadonlyArray<string>>, operation: string, part: string): string => {
  const profiles = replies.get("GetProfiles")?.[0] ?? ""
  const found = profiles.matchAll(new RegExp(`<${part} ([^>]*?token="([^"]*)"[^>]*>.*?)</${part}>`, "g"))
  const each = new Map([...found].map((one) => [one[2], `<Configurations ${one[1]}</Configurations>`]))
  return `<${operation}Response xmlns="http://www.onvif.org/ver10/media/wsdl">${
    [...each.values()].join("")
  }</${operation}Response>`
}

const encoders = (replies: ReadonlyMap<string, ReadonlyArray<string>>): string => {
  const each = replies.get("GetVideoEncoderConfiguration") ?? []
  const inner = each.map((line) =>
    (/<Configuration .*<\/Configuration>/.exec(line)?.[0] ?? "").replaceAll(
      /(<\/?)Configuration\b/g,
      "$1Configurations",
    )
  )
  return `<GetVideoEncoderConfigurationsResponse xmlns="http://www.onvif.org/ver10/media/wsdl">${inner.join("")}` +
    `</GetVideoEncoderConfigurationsResponse>`
}

export const startRecorded = async (name: string): Promise<RecordedDevice> => {
  const replies = recordedReplies(name)
  const profiles = [...(replies.get("GetProfiles")?.[0] ?? "").matchAll(/<Profiles [^>]*token="([^"]*)"/g)].map((one) =>
    one[1]
  )
  const answer = (text: string): string => {
    const request = readRequest(text)
    if (request === null) throw unsupported("that")
    if (request.operation === "GetVideoEncoderConfigurations") return encoders(replies)
    const part = parts[request.operation]
    if (part !== undefined) return partsOf(replies, request.operation, part)
    const lines = replies.get(request.operation)
    if (lines === undefined) throw unsupported(request.operation)
    const profile = profiles.indexOf(request.body.at("ProfileToken").text)
    return lines[Math.max(profile, 0)] ?? lines[0]!
  }
  const server = createServer((message, response) => {
    let text = ""
    message.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk
    }).on("end", () => {
      try {
        response.end(reply(answer(text)))
      } catch (error) {
        response.writeHead(500).end(reply((error as ReturnType<typeof unsupported>).xml))
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    host: "127.0.0.1",
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve()
        })
        server.closeAllConnections()
      }),
  }
}
