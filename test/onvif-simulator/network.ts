/** The network of the simulated device (one interface, on loopback), and its factory defaults. */
import type { Address } from "./configuration.ts"
import { escape, invalid, type Part, type Request } from "./soap.ts"
import type { State } from "./state.ts"

const written = (tag: string, one: Address | null) =>
  one === null ?
    "" :
    `<tt:${tag}><tt:Address>${
      escape(one.address)
    }</tt:Address><tt:PrefixLength>${one.prefixLength}</tt:PrefixLength></tt:${tag}>`

const interfaces = ({ configuration: { network } }: State): string =>
  `<tds:NetworkInterfaces token="eth0"><tt:Enabled>${network.enabled}</tt:Enabled><tt:Info><tt:Name>eth0</tt:Name>` +
  `<tt:HwAddress>02:00:00:00:00:01</tt:HwAddress><tt:MTU>${network.mtu}</tt:MTU></tt:Info><tt:Link><tt:AdminSettings>` +
  `<tt:AutoNegotiation>true</tt:AutoNegotiation><tt:Speed>100</tt:Speed><tt:Duplex>Full</tt:Duplex></tt:AdminSettings>` +
  `<tt:OperSettings><tt:AutoNegotiation>true</tt:AutoNegotiation><tt:Speed>100</tt:Speed><tt:Duplex>Full</tt:Duplex>` +
  `</tt:OperSettings><tt:InterfaceType>6</tt:InterfaceType></tt:Link><tt:IPv4><tt:Enabled>true</tt:Enabled><tt:Config>` +
  `${written("Manual", network.dhcp ? null : network.manual)}${
    written("FromDHCP", network.dhcp ? network.leased : null)
  }` +
  `<tt:DHCP>${network.dhcp}</tt:DHCP></tt:Config></tt:IPv4><tt:IPv6><tt:Enabled>false</tt:Enabled></tt:IPv6>` +
  `</tds:NetworkInterfaces>`

const setInterface = ({ configuration: { network } }: State, body: Part): string => {
  if (body.at("InterfaceToken").text !== "eth0") throw invalid("InvalidNetworkInterface", "No such interface")
  const change = body.at("NetworkInterface")
  const four = change.at("IPv4")
  network.mtu = change.number("MTU", network.mtu)
  if (four.at("DHCP").has) network.dhcp = four.at("DHCP").text === "true"
  if (four.at("Manual").has) {
    network.manual = {
      address: four.at("Manual", "Address").text,
      prefixLength: four.at("Manual").number("PrefixLength", 24),
    }
  }
  return `<tds:RebootNeeded>${network.rebootNeeded}</tds:RebootNeeded>`
}

/** Null: it is no request about these. */
export const network = (state: State, { body, operation }: Request): string | null => {
  switch (operation) {
    case "GetNetworkInterfaces":
      return interfaces(state)
    case "SetNetworkInterfaces":
      return setInterface(state, body)
    case "SetSystemFactoryDefault":
      state.configuration.resets.push(body.at("FactoryDefault").text)
      return ""
    default:
      return null
  }
}
