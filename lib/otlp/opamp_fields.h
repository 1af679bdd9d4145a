/* Field numbers and values of OpAMP's messages (opamp.proto, v0.14), by the names of that file: for the agent and the
 * centre, which each write one of the two messages and read the other. */
#pragma once

#define OPAMP_PATH      "/v1/opamp"
#define OPAMP_UID_BYTES 16

enum {
    AGENT_TO_SERVER_INSTANCE_UID = 1,
    AGENT_TO_SERVER_SEQUENCE_NUM = 2,
    AGENT_TO_SERVER_DESCRIPTION = 3,
    AGENT_TO_SERVER_CAPABILITIES = 4,
    AGENT_TO_SERVER_HEALTH = 5,
    AGENT_TO_SERVER_EFFECTIVE_CONFIG = 6,
    AGENT_TO_SERVER_DISCONNECT = 9,
    AGENT_TO_SERVER_CUSTOM_CAPABILITIES = 12,
    AGENT_TO_SERVER_CUSTOM_MESSAGE = 13
};
enum {
    AGENT_REPORTS_STATUS = 0x1,
    AGENT_REPORTS_CONFIG = 0x4,
    AGENT_REPORTS_HEALTH = 0x800,
    AGENT_REPORTS_HEARTBEAT = 0x2000
};

enum {
    SERVER_TO_AGENT_INSTANCE_UID = 1,
    SERVER_TO_AGENT_ERROR = 2,
    SERVER_TO_AGENT_FLAGS = 6,
    SERVER_TO_AGENT_CAPABILITIES = 7,
    SERVER_TO_AGENT_IDENTIFICATION = 8,
    SERVER_TO_AGENT_CUSTOM_CAPABILITIES = 10,
    SERVER_TO_AGENT_CUSTOM_MESSAGE = 11
};
enum { SERVER_ACCEPTS_STATUS = 0x1, SERVER_ACCEPTS_CONFIG = 0x4 };
enum { SERVER_WANTS_FULL_STATE = 0x1 }; /* a flag */
enum { SERVER_ERROR_MESSAGE = 2, SERVER_ERROR_RETRY = 3 };
enum { RETRY_INFO_NANOSECONDS = 1 };
enum { IDENTIFICATION_NEW_UID = 1 };

enum { DESCRIPTION_IDENTIFYING = 1, DESCRIPTION_OTHERS = 2 }; /* KeyValue of OTLP */
enum {
    HEALTH_IS_HEALTHY = 1,
    HEALTH_START_TIME = 2,
    HEALTH_LAST_ERROR = 3,
    HEALTH_STATUS = 4,
    HEALTH_STATUS_TIME = 5,
    HEALTH_COMPONENTS = 6 /* a map of the same message by name */
};
enum { MAP_KEY = 1, MAP_VALUE = 2 };
enum { EFFECTIVE_CONFIG_MAP = 1 };
enum { CONFIG_MAP_FILES = 1 }; /* a map */
enum { CONFIG_FILE_BODY = 1, CONFIG_FILE_TYPE = 2 };

enum { CUSTOM_CAPABILITIES_NAMES = 1 };
enum { CUSTOM_MESSAGE_CAPABILITY = 1, CUSTOM_MESSAGE_TYPE = 2, CUSTOM_MESSAGE_DATA = 3 };

/* The capability of captures: the server asks an agent for a profile (message `start`), and the agent reports its
 * state (message `state`). The agent sends the profile by OTLP; each sample has CAPTURE_ATTRIBUTE. */
#define OPAMP_CAPTURE            "sonde.capture/v1"
#define OPAMP_CAPTURE_START      "start"
#define OPAMP_CAPTURE_STATE      "state"
#define OPAMP_CAPTURE_ID_BYTES   33  /* 32 hexadecimal digits, terminated */
#define OPAMP_CAPTURE_SECONDS    60  /* at most */
#define OPAMP_CAPTURE_TEXT_BYTES 128 /* of a container's id or a service's name, terminated */
#define OPAMP_CAPTURE_WHY_BYTES  192 /* terminated */
enum {
    CAPTURE_ID = 1,
    CAPTURE_SECONDS = 2,
    CAPTURE_PID = 3,
    CAPTURE_CONTAINER = 4,
    CAPTURE_SERVICE = 5,
    CAPTURE_KIND = 6
};
enum { CAPTURE_CPU = 0, CAPTURE_OFF_CPU = 1 }; /* values of CAPTURE_KIND */
enum { CAPTURE_STATE_ID = 1, CAPTURE_STATE_STATE = 2, CAPTURE_STATE_WHY = 3, CAPTURE_STATE_SAMPLES = 4 };
enum { CAPTURE_RUNNING = 1, CAPTURE_DONE = 2, CAPTURE_FAILED = 3, CAPTURE_REFUSED = 4 };
#define CAPTURE_ATTRIBUTE "sonde.capture.id"

/* Components of an agent's health. */
#define OPAMP_COMPONENT_BUDGET "budget" /* its status is the level of detail: "full", "least" */
#define OPAMP_COMPONENT_LOSSES "losses" /* its status begins with their number */
#define OPAMP_COMPONENT_PROBES "probes"
