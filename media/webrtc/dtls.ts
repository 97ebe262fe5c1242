/**
 * DTLS 1.2 (RFC 6347) as the server, for the keys of SRTP (RFC 5764). The handshake is werift's; what it leaves open is done here.
 *
 * Invariants
 * 1. The other side owns the key of the certificate whose fingerprint its SDP names: the fingerprint is compared, and the signature of
 *    its CertificateVerify over the whole handshake is checked (RFC 5246, section 7.4.8), which werift does not.
 * 2. Before the handshake is done at most {@link maxHandshakeBytes} are read; behind it no new handshake begins.
 * 3. Nothing that the network says makes it throw.
 */
import { createHash, verify, X509Certificate } from "node:crypto"
import {
  CipherContext,
  DtlsServer,
  HashAlgorithm,
  NamedCurveAlgorithm,
  RTCCertificate,
  SignatureAlgorithm,
} from "werift"
import { srtpKeyBytes, srtpSaltBytes } from "./srtp-keys.ts"

/** A handshake has about 2 KiB; one with retransmissions a few times that. */
const maxHandshakeBytes = 32 * 1024
/** Of a datagram, and of a message in it: certificates of browsers have 300 bytes. */
const maxDatagramBytes = 4 * 1024
/** Datagrams read behind the handshake: retransmissions of its end, an alert. */
const maxLateDatagrams = 64
const aesCm128HmacSha1 = 1
const contentType = { alert: 21, handshake: 22 } as const
const dtls12 = 0xfefd
const recordHeaderBytes = 13
/** A warning; that it is over. */
const closeNotify = Buffer.from([1, 0])
const message = { clientHello: 1, certificateVerify: 15 } as const

/** The node's certificate for WebRTC, made anew at each start (RFC 8827, section 6.5). */
export interface DtlsIdentity {
  readonly certificate: RTCCertificate
  /** SHA-256, upper case, colons. */
  readonly fingerprint: string
}

export const makeDtlsIdentity = async (): Promise<DtlsIdentity> => {
  const { certPem, keyPem, signatureHash } = await CipherContext.createSelfSignedCertificateWithKey({
    signature: SignatureAlgorithm.ecdsa_3,
    hash: HashAlgorithm.sha256_4,
  }, NamedCurveAlgorithm.secp256r1_23)
  const certificate = new RTCCertificate(keyPem, certPem, signatureHash)
  return { certificate, fingerprint: new X509Certificate(certPem).fingerprint256 }
}

/** Hash functions of `a=fingerprint` (RFC 8122, section 5) that are good enough. */
const hashes: Readonly<Record<string, string>> = { "sha-256": "sha256", "sha-384": "sha384", "sha-512": "sha512" }

export interface Fingerprint {
  readonly algorithm: string
  /** Upper case, colons. */
  readonly value: string
}

/** Whether certificates can be compared with it. */
export const isUsable = ({ algorithm, value }: Fingerprint): boolean =>
  hashes[algorithm] !== undefined && /^[0-9A-F]{2}(:[0-9A-F]{2}){31,63}$/.test(value)

const matches = (certificate: Buffer, { algorithm, value }: Fingerprint): boolean => {
  const hash = hashes[algorithm]
  return hash !== undefined &&
    createHash(hash).update(certificate).digest("hex").toUpperCase() === value.replaceAll(":", "")
}

/** Hash functions of TLS 1.2 (RFC 5246, section 7.4.1.4.1). */
const signatureHashes: Readonly<Record<number, string>> = { 4: "sha256", 5: "sha384", 6: "sha512" }

/** A message of the handshake, as werift keeps it. */
interface HandshakePart {
  readonly msg_type: number
  readonly fragment: Buffer
  readonly serialize: () => Buffer
}

/** Whether the signature in the handshake is of the certificate's key. */
const provesPossession = (certificate: Buffer, handshake: ReadonlyArray<HandshakePart>): boolean => {
  const at = handshake.findIndex(({ msg_type }) => msg_type === message.certificateVerify)
  const proof = handshake[at]?.fragment
  if (proof === undefined || proof.length < 4) return false
  const hash = signatureHashes[proof[0]!]
  const signature = proof.subarray(4, 4 + proof.readUInt16BE(2))
  if (hash === undefined) return false
  const said = Buffer.concat(handshake.slice(0, at).map((part) => part.serialize()))
  return verify(hash, said, new X509Certificate(certificate).publicKey, signature)
}

export interface SrtpKeys {
  readonly localKey: Buffer
  readonly localSalt: Buffer
  readonly remoteKey: Buffer
  readonly remoteSalt: Buffer
}

export interface DtlsEvents {
  readonly send: (datagram: Buffer) => void
  readonly onKeys: (keys: SrtpKeys) => void
  /** The other side is not who it should be, does not speak DTLS, or has closed. */
  readonly onEnd: (reason: "failed" | "closed") => void
}

export interface Dtls {
  readonly receive: (datagram: Buffer) => void
  readonly close: () => void
}

/** Begins to wait for the other side's first message. */
export const openDtls = (identity: DtlsIdentity, expected: Fingerprint, events: DtlsEvents): Dtls => {
  let state: "open" | "done" | "closed" = "open"
  let bytes = 0
  let late = 0
  const { certificate } = identity
  const server = new DtlsServer({
    cert: certificate.certPem,
    key: certificate.privateKey,
    signatureHash: certificate.signatureHash,
    srtpProfiles: [aesCm128HmacSha1],
    extendedMasterSecret: true,
    certificateRequest: true,
    transport: {
      type: "ice",
      address: { address: "", family: "", port: 0 },
      closed: false,
      onData: () => {},
      send: (datagram) => {
        if (state !== "closed") events.send(datagram)
        return Promise.resolve()
      },
      close: () => Promise.resolve(),
    },
  })
  /** So that a browser knows at once that it is over, not by silence (RFC 5246, section 7.2.1). */
  const sayGoodbye = () => {
    const header = {
      type: contentType.alert,
      version: dtls12,
      epoch: 1,
      sequenceNumber: ++server.dtls.recordSequenceNumber,
    }
    const sealed = server.cipher.cipher.encrypt(server.sessionType, closeNotify, header)
    const record = Buffer.alloc(recordHeaderBytes + sealed.length)
    record[0] = contentType.alert
    record.writeUInt16BE(dtls12, 1)
    record.writeUInt16BE(header.epoch, 3)
    record.writeUIntBE(header.sequenceNumber, 5, 6)
    record.writeUInt16BE(sealed.length, 11)
    sealed.copy(record, recordHeaderBytes)
    events.send(record)
  }
  const close = () => {
    if (state === "closed") return
    const agreed = state === "done"
    state = "closed"
    if (agreed) sayGoodbye()
    // Ends its timers: no flight of it is left to be sent again.
    server.dtls.flight = Number.MAX_SAFE_INTEGER
  }
  const end = (reason: "failed" | "closed") => {
    if (state === "closed") return
    close()
    events.onEnd(reason)
  }
  const connected = () => {
    if (state !== "open") return
    const remote = server.remoteCertificate
    const genuine = remote !== undefined && matches(remote, expected) &&
      server.srtp.srtpProfile === aesCm128HmacSha1 && provesPossession(remote, server.dtls.sortedHandshakeCache)
    if (!genuine) return end("failed")
    state = "done"
    events.onKeys(server.extractSessionKeys(srtpKeyBytes, srtpSaltBytes))
  }
  const guarded = (act: () => void) => {
    try {
      act()
    } catch {
      end("failed")
    }
  }
  server.onConnect.subscribe(() => guarded(connected))
  server.onError.subscribe(() => end("failed"))
  server.onClose.subscribe(() => end("closed"))
  /** Behind the handshake: what may still be of use. */
  const isLate = (datagram: Buffer) =>
    late++ < maxLateDatagrams && (datagram[0] === contentType.alert ||
      (datagram[0] === contentType.handshake && datagram.readUInt16BE(3) > 0 && datagram[13] !== message.clientHello))
  return {
    close,
    receive: (datagram) => {
      if (state === "closed" || datagram.length < 14 || datagram.length > maxDatagramBytes) return
      if (state === "done" && !isLate(datagram)) return
      bytes += datagram.length
      if (state === "open" && bytes > maxHandshakeBytes) return end("failed")
      guarded(() => server.transport.socket.onData(datagram, ["", 0]))
    },
  }
}
