/** What a simulated device remembers of its configuration: OSDs, sources, audio, focus, network, factory resets. */

export interface SimulatedOsd {
  readonly token: string
  /** `Text` or `Image`. */
  readonly type: string
  position: string
  place: readonly [string, string] | null
  /** Of a text; element names as ONVIF has them. */
  readonly text: Map<string, string>
  /** `FontColor`: transparency, and x, y, z. */
  color: readonly [string, string, string, string] | null
  imagePath: string
}

export interface Address {
  address: string
  prefixLength: number
}

export class Configuration {
  readonly osds: Array<SimulatedOsd> = [{
    token: "osd-1",
    type: "Text",
    position: "UpperLeft",
    place: null,
    text: new Map([["Type", "DateAndTime"], ["DateFormat", "yyyy-MM-dd"], ["TimeFormat", "HH:mm:ss"], [
      "FontSize",
      "30",
    ]]),
    color: ["0", "82", "-26", "97"],
    imagePath: "",
  }]
  osdCount = 1
  readonly videoSource = { name: "Source", x: 0, y: 0, width: 1920, height: 1080, mode: "OFF", degrees: "" }
  readonly audio = { name: "Audio", encoding: "AAC", bitrate: 64, sampleRate: 16 }
  focus = 0.5
  focusSpeed = 0
  readonly network = {
    enabled: true,
    mtu: 1500,
    dhcp: false,
    manual: { address: "127.0.0.1", prefixLength: 8 } as Address,
    leased: null as Address | null,
    rebootNeeded: false,
  }
  /** What it was reset with, in order: `Hard`, `Soft`. */
  readonly resets: Array<string> = []
}
