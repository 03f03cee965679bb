package codec

// The commands of MySQL's protocol by their number.
const (
	comQuit             = 1
	comInitDB           = 2
	comQuery            = 3
	comFieldList        = 4
	comStatistics       = 9
	comProcessInfo      = 10
	comPing             = 14
	comChangeUser       = 17
	comBinlogDump       = 18
	comTableDump        = 19
	comRegisterSlave    = 21
	comPrepare          = 22
	comExecute          = 23
	comLongData         = 24
	comCloseStatement   = 25
	comResetStatement   = 26
	comFetch            = 28
	comBinlogDumpGTID   = 30
	comResetConnection  = 31
	comBulkExecute      = 0xfa // MariaDB
	lastPrepared        = 0xffffffff
	mariaCacheMetadata  = 1 << 4 // of MariaDB's own capabilities
	capLongPassword     = 1      // of both; MariaDB says by its absence that it has capabilities of its own
	capCompress         = 1 << 5
	capTLS              = 1 << 11
	capDeprecateEOF     = 1 << 24
	capOptionalMetadata = 1 << 25
	capZstd             = 1 << 26
	capQueryAttributes  = 1 << 27
)

// mysqlAnswer is how the answer to a command is built.
type mysqlAnswer int

const (
	noAnswer       mysqlAnswer = iota
	shortAnswer                // one packet
	resultAnswer               // OK, ERR, or one or several results
	preparedAnswer             // numbers of parameters and columns, and these
	rowAnswer                  // rows of a cursor
	fieldAnswer                // columns
	loginAnswer                // an exchange that ends with OK or ERR
)

// mysqlPlace is where in an answer its reader is.
type mysqlPlace int

const (
	atStart   mysqlPlace = iota
	atColumns            // as many as are left, before rows
	atEOF                // after the columns
	atRows
	atPrepared // as many packets as are left
)

// First bytes of packets.
const (
	packetOK       = 0
	packetInfile   = 0xfb
	packetEOF      = 0xfe
	packetERR      = 0xff
	longestPacket  = 0xffffff
	errProgress    = 0xffff // MariaDB's word on how far it is
	statusMore     = 8
	statusCursor   = 0x40
	shortestResult = 7 // an OK packet is no shorter
)

func mysqlPacket(p []byte) (body []byte, n int) {
	if len(p) < 4 {
		return nil, 0
	}
	size := int(p[0]) | int(p[1])<<8 | int(p[2])<<16
	if len(p) < 4+size {
		return nil, 0
	}
	return p[4 : 4+size], 4 + size
}

// lengthOf reads a number of MySQL's variable length, below 2^63; size 0 = there is none.
func lengthOf(p []byte) (number, size int) {
	if len(p) == 0 {
		return 0, 0
	}
	switch p[0] {
	case 0xfc:
		size = 3
	case 0xfd:
		size = 4
	case 0xfe:
		size = 9
	case packetInfile, packetERR:
		return 0, 0
	default:
		return int(p[0]), 1
	}
	if len(p) < size {
		return 0, 0
	}
	for i := size - 1; i > 0; i-- {
		number = number<<8 | int(p[i])
	}
	if number < 0 {
		return 0, 0
	}
	return number, size
}
